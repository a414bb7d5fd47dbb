-- How often an event was received, and from how many people.
select count(), uniqExact(distinct_id) from events
where event = {event} and timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until})
limit {most}
