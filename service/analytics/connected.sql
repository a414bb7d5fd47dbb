-- proof_events --
-- Events with the marker of a proof, newest first.
select event, toUnixTimestamp(created_at), properties from events
where event in {events} and isNotNull(properties.{proof})
  and timestamp >= toDateTime({earliest})
  and created_at >= toDateTime({since}) and created_at < toDateTime({until})
order by created_at desc limit {most}

-- newest_event --
-- When the newest event of all came in.
select toUnixTimestamp(max(created_at)) from events
where timestamp >= toDateTime({earliest})
limit 1

-- traffic --
-- How many events of any name came in a period before a moment (0) and from it on (1).
select if(created_at < toDateTime({moment}), 0, 1) as place, count() from events
where timestamp >= toDateTime({earliest}) and created_at >= toDateTime({since}) and created_at < toDateTime({until})
group by place order by place limit {most}

-- event_count --
-- How often an event was received, and from how many people.
select count(), uniqExact(distinct_id) from events
where event = {event} and timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until})
limit {most}

-- top_events --
-- The events of a project by how often they were received.
select event, count(), uniqExact(distinct_id), toUnixTimestamp(max(created_at)) from events
where timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until})
group by event
order by 2 desc, 1
limit {most}

-- active_users --
-- How many people had an event on each UTC day of a period.
select intDiv(toUnixTimestamp(created_at), 86400) * 86400 as day, uniqExact(distinct_id) from events
where timestamp >= toDateTime({earliest}) and created_at >= toDateTime({since}) and created_at < toDateTime({until})
group by day order by day limit {most}

-- event_trend --
-- How often an event came on each UTC day of a period, and from how many people.
select intDiv(toUnixTimestamp(created_at), 86400) * 86400 as day, count(), uniqExact(distinct_id) from events
where event = {event} and timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until})
group by day order by day limit {most}

-- retention --
-- Who had an event on a day and another on a later day of the period: by both days, how many people.
select day, returned_on, count() from (
    select arrayJoin(began) as day, arrayJoin(returned) as returned_on from (
        select distinct_id,
            groupUniqArrayIf(intDiv(toUnixTimestamp(created_at), 86400) * 86400, event = {start_event}) as began,
            groupUniqArrayIf(intDiv(toUnixTimestamp(created_at), 86400) * 86400, event = {return_event}) as returned
        from events
        where event in {events} and timestamp >= toDateTime({earliest})
            and created_at >= toDateTime({since}) and created_at < toDateTime({until})
        group by distinct_id
    )
) where returned_on > day
group by day, returned_on order by day, returned_on limit {most}

-- breakdown --
-- Which values a property of an event had in a period: rows and people by value, most rows first, and all rows.
select if(type in ('Null', 'Array', 'Object'), null, substringUTF8(text, 1, {characters})) as value,
    count() as times, uniqExact(distinct_id), sum(times) over () from (
    select distinct_id, toString(JSONType(properties, {property})) as type,
        if(type = 'String', JSONExtractString(properties, {property}), JSONExtractRaw(properties, {property})) as text
    from events
    where event = {event} and timestamp >= toDateTime({earliest})
        and created_at >= toDateTime({since}) and created_at < toDateTime({until})
) group by value order by times desc, value limit {most}

-- release_traffic --
-- How many events name each of some releases in a period; the first text of three properties counts.
select coalesce(nullIf(JSONExtractString(properties, 'release'), ''),
    nullIf(JSONExtractString(properties, '$release'), ''),
    JSONExtractString(properties, '$app_version')) as release, count() from events
where timestamp >= toDateTime({earliest}) and created_at >= toDateTime({since}) and created_at < toDateTime({until})
    and release in {releases}
group by release limit {most}

-- ordered_funnel --
-- How many people came to each level of an ordered funnel and no further. The window of a person is the whole period,
-- so it takes nothing away; steps that a funnel does not have are named by the empty text, which no event is called.
select level, count() from (
    select distinct_id, windowFunnel({window})(toUnixTimestamp(created_at),
        event = {step_1}, event = {step_2}, event = {step_3}, event = {step_4}, event = {step_5},
        event = {step_6}, event = {step_7}, event = {step_8}, event = {step_9}, event = {step_10},
        event = {step_11}, event = {step_12}, event = {step_13}, event = {step_14}, event = {step_15},
        event = {step_16}, event = {step_17}, event = {step_18}, event = {step_19}, event = {step_20}) as level
    from events
    where event in {events} and timestamp >= toDateTime({earliest})
        and created_at >= toDateTime({since}) and created_at < toDateTime({until})
    group by distinct_id
) where level > 0 group by level order by level limit {most}

-- part environment_named --
-- The environment of an event: the first text counts.
coalesce(nullIf(JSONExtractString(properties, 'environment'), ''),
    nullIf(JSONExtractString(properties, '$environment'), ''),
    nullIf(JSONExtractString(properties, 'deployment.environment.name'), ''),
    JSONExtractString(properties, 'deployment.environment')) as named

-- event_traffic --
-- How many events of a name came in a period in an environment, and how many without one.
select countIf(named = {environment}), countIf(named = '') from (
    select
        \include environment_named
    from events
    where event = {event} and timestamp >= toDateTime({earliest})
        and created_at > toDateTime({since}) and created_at <= toDateTime({until})
)
limit 1

-- traffic_by_hour --
-- How many events of a name came in each hour of a period in an environment, and how many without one.
select intDiv(toUnixTimestamp(created_at) - {since} - 1, 3600) as hour, countIf(named = {environment}),
    countIf(named = '') from (
    select created_at,
        \include environment_named
    from events
    where event = {event} and timestamp >= toDateTime({earliest})
        and created_at > toDateTime({since}) and created_at <= toDateTime({until})
)
group by hour limit {most}

-- usual_environment --
-- Of the newest events of a name before a time: how many there are, and how many of them name an environment.
select count(), countIf(named != '') from (
    select
        \include environment_named
    from events
    where event = {event} and timestamp >= toDateTime({earliest}) and created_at <= toDateTime({since})
    order by created_at desc limit {looked}
)
limit 1

-- newest_rows --
-- Of each of some events how many of the newest rows there are, when the last came in, and the properties that these
-- have; and how many of the rows hold the marker of a failure, and when the last of those came in.
select event, count(), toUnixTimestamp(max(created_at)),
    arrayDistinct(arrayFlatten(groupArray(JSONExtractKeys(properties)))), countIf(position(properties, {failure}) > 0),
    toUnixTimestamp(maxIf(created_at, position(properties, {failure}) > 0))
from (
    select event, created_at, properties, row_number() over (partition by event order by created_at desc) as place
    from events
    where event in {events} and timestamp >= toDateTime({earliest})
)
where place <= {newest}
group by event limit {most}

-- event_names --
-- The names of a project's events, by how often they were received.
select event, count(), uniqExact(distinct_id), toUnixTimestamp(min(created_at)), toUnixTimestamp(max(created_at))
from events
where timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until})
group by event
order by 2 desc, 1
limit {limit}

-- event_keys --
-- The keys of the properties of events, by how many have them, with the types of their values as the server names them.
select event, name, count(), groupUniqArray(type) from (
    select event, arrayJoin(JSONExtractKeys(properties)) as name, toString(JSONType(properties, name)) as type
    from events
    where timestamp >= toDateTime({earliest})
        and created_at >= toDateTime({since}) and created_at < toDateTime({until})
        and event in {events}
)
where name != {hidden}
group by event, name
order by 3 desc, 1, 2
limit {limit}

-- exception_clock --
-- The provider's clock, and how many exceptions came in since a time by it, and within so many seconds.
select toUnixTimestamp(now()), countIf(event = '$exception' and created_at >= toDateTime({since})
    and created_at >= now() - toIntervalSecond({reach}))
from events
where event = '$exception' and timestamp >= now() - toIntervalSecond({oldest})
limit 1

-- exception_count --
-- How many exceptions came in within a time.
select count()
from events
where event = '$exception' and timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until})
limit 1

-- exception_groups --
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

-- exception_samples --
-- Some exceptions by their uuids, each with its properties if these are not too long.
select toString(uuid), if(length(properties) <= {longest}, properties, '')
from events
where event = '$exception' and timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until}) and toString(uuid) in {ids}
limit {most}
