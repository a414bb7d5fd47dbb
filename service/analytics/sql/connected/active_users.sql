-- How many people had an event on each UTC day of a period.
select intDiv(toUnixTimestamp(created_at), 86400) * 86400 as day, uniqExact(distinct_id) from events
where timestamp >= toDateTime({earliest}) and created_at >= toDateTime({since}) and created_at < toDateTime({until})
group by day order by day limit {most}
