-- How many events of a name came in a period in an environment, and how many without one; the first text counts.
select countIf(named = {environment}), countIf(named = '') from (
    select coalesce(nullIf(JSONExtractString(properties, 'environment'), ''),
        nullIf(JSONExtractString(properties, '$environment'), ''),
        nullIf(JSONExtractString(properties, 'deployment.environment.name'), ''),
        JSONExtractString(properties, 'deployment.environment')) as named
    from events
    where event = {event} and timestamp >= toDateTime({earliest})
        and created_at > toDateTime({since}) and created_at <= toDateTime({until})
)
limit 1
