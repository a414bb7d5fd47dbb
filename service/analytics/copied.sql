-- part events --
-- The events of a project within a window by their own time, received before the watermark.
select event, if(n.person = '', e.distinct_id, n.person) as person,
    ifNull(occurred_at, toUnixTimestamp(received_at)) as at, intDiv(at, 86400) * 86400 as day, properties
from analytics_events e
left any join (
\include names
) n on n.name = e.distinct_id
where project_id = {project_id:String}
    \include received
    and at >= {since:Int64} and at < {until:Int64}

-- part errors --
-- The errors of a project within a window by their own time, of an environment or of all ('').
select case_id, if(n.person = '', e.user_id, n.person) as person, release,
    ifNull(occurred_at, toUnixTimestamp(received_at)) as at, intDiv(at, 86400) * 86400 as day
from log_events e
left any join (
\include names
) n on n.name = e.user_id
where project_id = {project_id:String}
    \include received
    and at >= {since:Int64} and at < {until:Int64} and isNotNull(case_id)
    and ({environment:String} = '' or environment = {environment:String})

-- part names --
-- Whose the names of a project's people are. The latest word counts.
select name, argMax(person, version) as person from person_names where project_id = {project_id:String} group by name

-- part received --
-- Received in the window or some time after it, and before the watermark.
and received_at >= toDateTime({since:Int64}, 'UTC') and received_at < toDateTime({received_until:Int64}, 'UTC')

-- structured_events --
-- Events for a structured query, with columns that follow from it.
select {columns} from (
    select id, event, distinct_id, received_at as came, ifNull(occurred_at, toUnixTimestamp(received_at)) as at,
        if(n.person = '', e.distinct_id, n.person) as person, properties
    from analytics_events e
    left any join (
    \include names
    ) n on n.name = e.distinct_id
    where project_id = {project_id:String}
        \include received
        and at >= {since:Int64} and at < {until:Int64}) r

-- structured_errors --
-- Errors for a structured query, with columns that follow from it.
select {columns} from (
    select id, case_id, fingerprint, level, environment, release, user_id, received_at as came,
        ifNull(occurred_at, toUnixTimestamp(received_at)) as at,
        if(n.person = '', e.user_id, n.person) as person, tags
    from log_events e
    left any join (
    \include names
    ) n on n.name = e.user_id
    where project_id = {project_id:String}
        \include received
        and at >= {since:Int64} and at < {until:Int64} and isNotNull(case_id)) r

-- structured_bounds --
-- The rows of a structured query up to its bound of bytes, each with whether it is within.
select {shown}, total <= {bytes} from (
    select {shown}, place, size, sum(size) over (order by place rows unbounded preceding) as total from (
        select {shown}, rowNumberInAllBlocks() as place, {size} as size from ({rows} limit {most:UInt64})))
where total - size <= {bytes} order by place

-- newest_event --
-- When the newest event of a project was received. 0: it has none.
select toUnixTimestamp(max(received_at)) from analytics_events
where project_id = {project_id:String} and received_at < toDateTime({watermark:Int64}, 'UTC')

-- newest_error --
-- When the newest error of a project was received. 0: it has none.
select toUnixTimestamp(max(received_at)) from log_events
where project_id = {project_id:String} and received_at < toDateTime({watermark:Int64}, 'UTC') and isNotNull(case_id)

-- event_count --
-- How often an event happened, and from how many people.
select count(), uniqExact(person) from (
\include events
) where event = {event:String} limit {most:UInt64}

-- top_events --
-- The events of a project by how often they happened.
select event, count(), uniqExact(person), max(at) from (
\include events
) group by event order by 2 desc, 1 limit {most:UInt64}

-- active_users --
-- How many people had an event on each UTC day of a period; days without any are left out.
select day, uniqExact(person) from (
\include events
) group by day order by day limit {most:UInt64}

-- event_trend --
-- How often an event happened on each UTC day of a period, and from how many people; days without it are left out.
select day, count(), uniqExact(person) from (
\include events
) where event = {event:String} group by day order by day limit {most:UInt64}

-- retention --
-- Who had an event on a day and another on a later day of the period: by both days, how many people.
select day, returned_on, count() from (
    select arrayJoin(began) as day, arrayJoin(returned) as returned_on from (
        select person, groupUniqArrayIf(day, event = {start_event:String}) as began,
            groupUniqArrayIf(day, event = {return_event:String}) as returned
        from (
\include events
        ) where event in {events:Array(String)}
        group by person)
) where returned_on > day
group by day, returned_on order by day, returned_on limit {most:UInt64}

-- breakdown --
-- Which values a property of an event had in a period: rows and people by value, most rows first, and all rows of the
-- event. A value is a text of at most so many characters; null stands for a property that is not there, null, or no
-- scalar.
select value, count() as times, uniqExact(person), sum(count()) over () from (
    select person, properties[{property:String}] as held,
        if(held in ('', 'null') or startsWith(held, '{') or startsWith(held, '['), null,
            substringUTF8(if(startsWith(held, '"'), JSONExtractString(held), held), 1, {characters:UInt32})) as value
    from (
\include events
    ) where event = {event:String})
group by value order by times desc, value asc nulls last limit {most:UInt64}

-- ordered_funnel --
-- How many people came to each level of an ordered funnel and no further. The window of a person is longer than any
-- period. Steps of a shorter funnel are named by the empty text, and no event has this name.
select level, count() from (
    select windowFunnel(40000000)(toUInt64(at),
        event = {step_1:String}, event = {step_2:String}, event = {step_3:String}, event = {step_4:String},
        event = {step_5:String}, event = {step_6:String}, event = {step_7:String}, event = {step_8:String},
        event = {step_9:String}, event = {step_10:String}, event = {step_11:String}, event = {step_12:String},
        event = {step_13:String}, event = {step_14:String}, event = {step_15:String}, event = {step_16:String},
        event = {step_17:String}, event = {step_18:String}, event = {step_19:String}, event = {step_20:String}) as level
    from (
\include events
    ) where event in {events:Array(String)}
    group by person
) where level > 0 group by level order by level limit {most:UInt64}

-- errors_by_release --
-- How many errors each release had, and how many people met them; null for errors that name no release.
select release, count(), uniqExact(person), min(at), max(at) from (
\include errors
) group by release order by 2 desc, release asc nulls last limit {most:UInt64}

-- people_with_errors --
-- How many people met an error on each UTC day of a period, in an environment or in all; days without any are left out.
select day, uniqExact(person) from (
\include errors
) where isNotNull(person) group by day order by day limit {most:UInt64}

-- release_errors --
-- How many errors some releases had in a period, in an environment or in all, and from how many people.
select release, count(), uniqExact(person) from (
\include errors
) where release in {releases:Array(String)} group by release limit {most:UInt64}

-- part text_of --
-- The text of a value by its JSON text, as the operator ->> writes it. Of null and of nothing the empty one.
v -> multiIf(startsWith(v, '"'), JSONExtractString(v), v = 'null', '', v)

-- release_traffic --
-- How many events name each of some releases in a period; the first text of three properties counts.
select release, count() from (
    select arrayFirst(named -> named != '', arrayMap(
        \include text_of
        , [properties['release'], properties['$release'], properties['$app_version']])) as release
    from (
\include events
    ))
where release in {releases:Array(String)} group by release limit {most:UInt64}
