-- How many exceptions came in within a time.
select count()
from events
where event = '$exception' and timestamp >= toDateTime({earliest})
    and created_at >= toDateTime({since}) and created_at < toDateTime({until})
limit 1
