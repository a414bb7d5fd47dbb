-- Lets nobody link names of people or take them apart before the end of the transaction. Who waited sees then whether a
-- copy of telemetry has begun, and notes what changes (G-200).
create or replace function lock_names() returns void language plpgsql as $body$
begin
    lock table person_names in share mode;
end
$body$;
