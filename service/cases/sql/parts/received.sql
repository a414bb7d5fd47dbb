-- Records `e` of a project after a place, newest first, received at `low` or later: so many. `high` is the end of the
-- day of the place. It tells which days to open; with the place in its stead, the planner would count that one twice.
e.project_id = %(project_id)s and e.received_at >= %(low)s and e.received_at <= %(high)s
    and (e.received_at, e.id) < (%(at)s, %(id)s)
order by e.received_at desc, e.id desc limit %(looked)s
