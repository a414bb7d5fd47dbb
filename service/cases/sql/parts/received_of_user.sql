-- The same of the records that name a person. Written so that their own index alone has this order: how many records a
-- person has no planner can tell, and by the key it would look through those of everybody.
e.user_id is not null and e.received_at >= %(low)s and e.received_at <= %(high)s
    and (e.project_id, e.user_id, e.received_at) >= (%(project_id)s, %(user)s, %(low)s)
    and (e.project_id, e.user_id, e.received_at) <= (%(project_id)s, %(user)s, %(at)s)
    and (e.received_at, e.id) < (%(at)s, %(id)s)
order by e.project_id desc, e.user_id desc, e.received_at desc, e.id desc limit %(looked)s
