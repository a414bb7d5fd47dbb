-- Of the newest events of a name before a time: how many there are, and how many of them name an environment.
select count(), countIf(named != '') from (
    select coalesce(nullIf(JSONExtractString(properties, 'environment'), ''),
        nullIf(JSONExtractString(properties, '$environment'), ''),
        nullIf(JSONExtractString(properties, 'deployment.environment.name'), ''),
        JSONExtractString(properties, 'deployment.environment')) as named
    from events
    where event = {event} and timestamp >= toDateTime({earliest}) and created_at <= toDateTime({since})
    order by created_at desc limit {looked}
)
limit 1
