-- What erase_payloads does, always from the beginning: for the release before, which calls this one. The payloads of at
-- most `max_rows` events of a scope (a project or a person),
-- in the order of stream and revision, turn to null with their salts. Answers how many: 0 when none is left. It needs
-- the erasure event, `deletion.purging_began.v1` in the stream of the deletion whose id is given, naming this scope;
-- without it this raises restrict_violation and erases nothing. It works with the rights of the owner of the tables, so
-- that the role that serves needs none to change an event. The right ends with the call.
create or replace function erase_events(erased_scope text, deletion_id text, max_rows int) returns bigint
language plpgsql security definer
set search_path = public, pg_temp
set enable_seqscan = off
set enable_sort = off
as $body$
declare
    erased bigint;
begin
    if not exists (
        select from events e
        where e.project_id = erase_events.deletion_id and e.topic = 'deletion.purging_began.v1'
            and e.payload ->> 'scope_id' = erased_scope)
    then
        raise exception 'no deletion % may erase %', deletion_id, erased_scope using errcode = 'restrict_violation';
    end if;
    perform set_config('service.erasing', deletion_id, true);
    update events set payload = null, salt = null where ctid = any(array(
        select e.ctid from events e
        where e.project_id = erased_scope and e.payload is not null and e.topic <> 'deletion.purging_began.v1'
        order by e.stream_id, e.revision limit max_rows for no key update));
    get diagnostics erased = row_count;
    perform set_config('service.erasing', '', true);
    return erased;
end
$body$;
