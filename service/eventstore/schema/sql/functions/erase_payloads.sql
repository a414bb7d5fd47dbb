-- The one way in which payloads leave the log: those of at most `max_rows` events of a scope (a project or a person),
-- in the order of stream and revision and from a place in it on, turn to null with their salts. Answers how many, and
-- the place of the last: 0 when none is left after the given place. A caller that hands the place back need not have all
-- that is erased by then read again for each step; '' and 0 begin at the beginning.
--
-- It needs the erasure event, `deletion.purging_began.v1` in the stream of the deletion whose id is given, naming this
-- scope; without it this raises restrict_violation and erases nothing. It works with the rights of the owner of the
-- tables, so that the role that serves needs none to change an event. The right ends with the call.
create or replace function erase_payloads(
    erased_scope text, deletion_id text, after_stream text, after_revision bigint, max_rows int,
    out erased bigint, out last_stream text, out last_revision bigint)
language plpgsql security definer
set search_path = public, pg_temp
set enable_seqscan = off
set enable_sort = off
as $body$
declare
    places tid[];
begin
    if not exists (
        select from events e
        where e.project_id = erase_payloads.deletion_id and e.topic = 'deletion.purging_began.v1'
            and e.payload ->> 'scope_id' = erased_scope)
    then
        raise exception 'no deletion % may erase %', deletion_id, erased_scope using errcode = 'restrict_violation';
    end if;
    select array_agg(f.place), (array_agg(f.stream_id))[count(*)], (array_agg(f.revision))[count(*)]
    into places, last_stream, last_revision
    from (
        select e.ctid as place, e.stream_id, e.revision from events e
        where e.project_id = erased_scope and (e.stream_id, e.revision) > (after_stream, after_revision)
            and e.payload is not null and e.topic <> 'deletion.purging_began.v1'
        order by e.stream_id, e.revision limit max_rows) f;
    perform set_config('service.erasing', deletion_id, true);
    update events set payload = null, salt = null where ctid = any(places) and payload is not null;
    get diagnostics erased = row_count;
    perform set_config('service.erasing', '', true);
end
$body$;
