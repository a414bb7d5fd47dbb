-- compatible: yes
-- Whether a deletion allows what a statement erases is asked once a statement, not once an event: see
-- functions/erasures_have_a_deletion.sql. Until that file is applied nothing may be erased.
create function erasures_have_a_deletion() returns trigger language plpgsql as $body$
begin
    raise exception 'events are immutable' using errcode = 'restrict_violation';
end
$body$;
create trigger events_erased_in_deletion after update on events
    referencing old table as erased for each statement execute function erasures_have_a_deletion();
alter table events enable always trigger events_erased_in_deletion;
