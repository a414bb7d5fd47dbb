-- The time of event `e`. Without a reach, that of its receipt.
case when %(reach)s::bigint = 0 then e.received_at else coalesce(e.occurred_at, e.received_at) end
