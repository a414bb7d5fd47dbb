-- Trigger of events. History is written once. The one exception is the erasure of a deleted project, which names that
-- project in service.erase_project and may only turn payload and salt to null: the envelope still proves itself.
create or replace function events_are_immutable() returns trigger language plpgsql as $body$
begin
    if tg_op = 'UPDATE'
       and new.payload is null and new.salt is null
       and current_setting('service.erase_project', true) = old.project_id
       and (to_jsonb(new) - 'payload' - 'salt') = (to_jsonb(old) - 'payload' - 'salt')
    then
        return new;
    end if;
    raise exception 'events are immutable' using errcode = 'restrict_violation';
end
$body$;
