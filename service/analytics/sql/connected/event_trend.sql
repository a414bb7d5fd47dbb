-- How often an event came on each UTC day of a period, and from how many people.
select intDiv(toUnixTimestamp(created_at), 86400) * 86400 as day, count(), uniqExact(distinct_id) from events
where event = {event} and timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until})
group by day order by day limit {most}
