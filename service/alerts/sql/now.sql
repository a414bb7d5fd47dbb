-- The time in microseconds since the epoch.
select (extract(epoch from (select service_now())) * 1000000)::bigint
