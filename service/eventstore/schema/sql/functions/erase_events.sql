-- What erase_payloads does, always from the beginning, for the release before: it calls this one. Answers how many payloads
-- turned to null. Who may and when is for erase_payloads to say; it works with the rights of the owner of the tables.
create or replace function erase_events(erased_scope text, deletion_id text, max_rows int) returns bigint
language plpgsql security definer
set search_path = public, pg_temp
as $body$
begin
    return (
        select p.erased from erase_payloads(
            erased_scope => erase_events.erased_scope, deletion_id => erase_events.deletion_id,
            after_stream => '', after_revision => 0, max_rows => erase_events.max_rows) p);
end
$body$;
