-- The provider's clock, and how many exceptions came in since a time by it, and within so many seconds.
select toUnixTimestamp(now()), countIf(event = '$exception' and created_at >= toDateTime({since})
    and created_at >= now() - toIntervalSecond({reach}))
from events
where event = '$exception' and timestamp >= now() - toIntervalSecond({oldest})
limit 1
