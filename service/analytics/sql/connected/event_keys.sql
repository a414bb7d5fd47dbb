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
