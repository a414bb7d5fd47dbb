-- Ends the transaction unless as many heads were updated as events call for: a head that is not where its lock found
-- it would let two histories share one stream. Asked in the statement that updates, so that nothing is committed.
create or replace function all_heads_updated(updated bigint, wanted bigint) returns boolean language plpgsql as $body$
begin
    if updated <> wanted then
        raise exception 'a locked head moved: % of % updated', updated, wanted using errcode = 'SH001';
    end if;
    return true;
end
$body$;
