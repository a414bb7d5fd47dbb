-- The one source of time, as timestamptz. Volatile, and the wall clock rather than the transaction's: now() stands still
-- while a statement waits for a lock, and would accept a lease that ended meanwhile.
create or replace function service_now() returns timestamptz language sql volatile as $body$
    select clock_timestamp() + make_interval(secs => offset_seconds) from service_clock
$body$;
