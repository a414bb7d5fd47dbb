-- Cases of a status after a place; of any when it is null.
c.project_id = %(project_id)s and (c.opened_at, c.id) < (%(at)s, %(id)s)
and (%(status)s::text is null or replace(replace(c.status, 'overflow', 'open'), 'merged', 'ignored') = %(status)s)
