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
