-- Move the service's clock ahead; returns its time and by how much it is ahead of the machine's.
with moved as materialized (select advance_service_clock(seconds => %(seconds)s) as ahead)
select floor(extract(epoch from clock_timestamp()))::bigint + ahead, ahead from moved
