-- Which values a property of an event had in a period: rows and people by value, most rows first, and all rows.
select if(type in ('Null', 'Array', 'Object'), null, substringUTF8(text, 1, {characters})) as value,
    count() as times, uniqExact(distinct_id), sum(times) over () from (
    select distinct_id, toString(JSONType(properties, {property})) as type,
        if(type = 'String', JSONExtractString(properties, {property}), JSONExtractRaw(properties, {property})) as text
    from events
    where event = {event} and timestamp >= toDateTime({earliest})
        and created_at >= toDateTime({since}) and created_at < toDateTime({until})
) group by value order by times desc, value limit {most}
