-- Some exceptions by their uuids, each with its properties if these are not too long.
select toString(uuid), if(length(properties) <= {longest}, properties, '')
from events
where event = '$exception' and timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until}) and toString(uuid) in {ids}
limit {most}
