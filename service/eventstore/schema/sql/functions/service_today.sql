-- Epoch seconds of the present day's UTC midnight, as bigint; as a scalar subquery, like service_seconds.
create or replace function service_today() returns bigint language sql volatile as $body$
    select floor(extract(epoch from service_now()) / 86400)::bigint * 86400
$body$;
