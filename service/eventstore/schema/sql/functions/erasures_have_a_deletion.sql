-- Trigger of events, after a statement that has erased payloads: events_are_immutable has seen that it changed nothing
-- else. Every scope that it touched has to be named by the erasure event of the deletion that service.erasing names, and
-- the statement has to be the table's owner's, as erase_payloads is. The setting alone allows nothing. Otherwise the
-- statement is undone as a whole.
create or replace function erasures_have_a_deletion() returns trigger language plpgsql
set search_path = public, pg_temp as $body$
begin
    if current_user <> (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = tg_relid)
       or exists (
           select from (select distinct b.project_id from erased b) scope
           where not exists (
               select from events e
               where e.project_id = current_setting('service.erasing', true)
                   and e.topic = 'deletion.purging_began.v1' and e.payload ->> 'scope_id' = scope.project_id))
    then
        raise exception 'events are immutable' using errcode = 'restrict_violation';
    end if;
    return null;
end
$body$;
