-- Trigger of service_clock: leases and windows that ended must stay ended.
create or replace function service_clock_only_grows() returns trigger language plpgsql as $body$
begin
    if tg_op = 'UPDATE' and new.offset_seconds >= old.offset_seconds then
        return new;
    end if;
    raise exception 'the test clock only moves forward' using errcode = 'restrict_violation';
end
$body$;
