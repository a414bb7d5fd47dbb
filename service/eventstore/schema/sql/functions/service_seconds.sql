-- Whole epoch seconds of the service's time, as bigint: what deadlines, leases and times of receipt are told in. As a
-- scalar subquery, `(select service_seconds())`, it is asked once however many rows there are, and an index serves.
create or replace function service_seconds() returns bigint language sql volatile as $body$
    select floor(extract(epoch from service_now()))::bigint
$body$;
