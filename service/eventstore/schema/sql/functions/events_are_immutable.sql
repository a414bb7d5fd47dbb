-- Trigger of events. History is written once. The one exception is what erase_payloads does: payload and salt of an
-- event turn to null, both and nothing else, under the setting that names the deletion. That is looked at here, event by
-- event and without a query; that the deletion exists and names the scope is asked once for the whole statement, by
-- erasures_have_a_deletion. An erasure event itself is never erased: the envelope goes on proving itself, and so does the
-- reason why the payload is gone.
create or replace function events_are_immutable() returns trigger language plpgsql
set search_path = public, pg_temp as $body$
declare
    kept events;
begin
    if tg_op = 'UPDATE' and new.payload is null and new.salt is null then
        kept := new;
        kept.payload := old.payload;
        kept.salt := old.salt;
        if kept *= old and old.topic <> 'deletion.purging_began.v1' and current_setting('service.erasing', true) <> ''
        then
            return new;
        end if;
    end if;
    raise exception 'events are immutable' using errcode = 'restrict_violation';
end
$body$;
