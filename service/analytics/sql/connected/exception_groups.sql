-- Exceptions that came in within a time, in order, counted by what groups them, by minute: how many, of how many
-- people, when the first and the last came, when the last happened, their uuids, and that of the last. A fingerprint
-- of 64 digits or more is the provider's own. Lines change with every release, and numbers in messages with each event.
select kind, frames, said, client, level, environment, release, marked,
    toUnixTimestamp(toStartOfMinute(arrived)) as minute, count(), uniqExact(person),
    toUnixTimestamp(min(arrived)), toUnixTimestamp(max(arrived)), toUnixTimestamp(max(happened)),
    groupArray(id), argMax(id, arrived)
from (
    select toString(uuid) as id, distinct_id as person, created_at as arrived, timestamp as happened,
        arrayElement(JSONExtractArrayRaw(properties, '$exception_list'), 1) as told,
        substring(coalesce(nullIf(JSONExtractString(told, 'type'), ''),
            JSONExtractString(properties, '$exception_type')), 1, 200) as kind,
        substring(arrayStringConcat(arrayMap(
            frame -> concat(JSONExtractString(frame, 'filename'), JSONExtractString(frame, 'source'), '\t',
                JSONExtractString(frame, 'function'), JSONExtractString(frame, 'resolved_name')),
            arraySlice(JSONExtractArrayRaw(told, 'stacktrace', 'frames'), -8)), '\n'), 1, 1000) as frames,
        if(frames = '', substring(replaceRegexpAll(coalesce(nullIf(JSONExtractString(told, 'value'), ''),
            JSONExtractString(properties, '$exception_message')), '[0-9]+', '0'), 1, 200), '') as said,
        JSONExtractString(properties, '$exception_fingerprint') as fingerprint,
        if(length(fingerprint) >= 64 and not match(fingerprint, '[^0-9a-f]'), '',
            substring(fingerprint, 1, 200)) as client,
        substring(JSONExtractString(properties, '$exception_level'), 1, 20) as level,
        substring(coalesce(nullIf(JSONExtractString(properties, 'environment'), ''),
            nullIf(JSONExtractString(properties, '$environment'), ''),
            nullIf(JSONExtractString(properties, 'deployment.environment.name'), ''),
            JSONExtractString(properties, 'deployment.environment')), 1, 100) as environment,
        substring(coalesce(nullIf(JSONExtractString(properties, 'release'), ''),
            nullIf(JSONExtractString(properties, '$release'), ''),
            JSONExtractString(properties, '$app_version')), 1, 200) as release,
        if(JSONHas(properties, {proof}), 1, 0) as marked
    from events
    where event = '$exception' and timestamp >= toDateTime({earliest})
        and created_at >= toDateTime({since}) and created_at < toDateTime({until})
    order by created_at limit {events}
)
group by kind, frames, said, client, level, environment, release, marked, minute
order by minute, count() desc
limit {groups}
