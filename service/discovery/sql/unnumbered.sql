-- How many of the oldest committed events have no position yet, and the age of the oldest in seconds.
select count(*), coalesce(extract(epoch from (select service_now()) - min(e.recorded_at)), 0)::bigint
from (select seq from unsequenced order by seq limit 1000) u join events e on e.seq = u.seq
