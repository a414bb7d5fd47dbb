-- Whether event `e` is of a period by its own time. Then it may be received up to `reach` seconds after the period.
-- Without a reach, the time of its receipt counts.
e.received_at >= %(since)s and e.received_at < %(until)s + %(reach)s::bigint
and (%(reach)s::bigint = 0
    or coalesce(e.occurred_at, e.received_at) >= %(since)s and coalesce(e.occurred_at, e.received_at) < %(until)s)
