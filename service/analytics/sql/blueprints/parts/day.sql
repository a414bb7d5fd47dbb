-- The UTC day of event `e` by its own time. Without a reach, by that of its receipt.
case when %(reach)s::bigint = 0 then e.received_at - e.received_at %% 86400
    else coalesce(e.occurred_at, e.received_at) - coalesce(e.occurred_at, e.received_at) %% 86400 end
