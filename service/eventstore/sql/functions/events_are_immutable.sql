-- Trigger of events. History is written once. The one exception is what erase_events does: payload and salt of an event
-- turn to null, both and nothing else, while the deletion that service.erasing names holds the erasure event of its
-- scope. The setting alone allows nothing, and neither does a role that does not own the table: the envelope goes on
-- proving itself, and so does the reason why the payload is gone. An erasure event itself is never erased.
create or replace function events_are_immutable() returns trigger language plpgsql
set search_path = public, pg_temp as $body$
declare
    kept events;
begin
    if tg_op = 'UPDATE' and new.payload is null and new.salt is null then
        kept := new;
        kept.payload := old.payload;
        kept.salt := old.salt;
        if kept *= old
           and old.topic <> 'deletion.purging_began.v1'
           and current_user = (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = tg_relid)
           and exists (
               select from events e
               where e.project_id = current_setting('service.erasing', true)
                   and e.topic = 'deletion.purging_began.v1' and e.payload ->> 'scope_id' = old.project_id)
        then
            return new;
        end if;
    end if;
    raise exception 'events are immutable' using errcode = 'restrict_violation';
end
$body$;
