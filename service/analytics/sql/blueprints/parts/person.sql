-- The person of event `e` (names.sql).
case when %(linked)s then coalesce(n.person, e.distinct_id) else e.distinct_id end
