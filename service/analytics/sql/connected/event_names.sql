-- The names of a project's events, by how often they were received.
select event, count(), uniqExact(distinct_id), toUnixTimestamp(min(created_at)), toUnixTimestamp(max(created_at))
from events
where timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until})
group by event
order by 2 desc, 1
limit {limit}
