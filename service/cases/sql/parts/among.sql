-- Cases of a status after a place.
c.project_id = %(project_id)s and (c.opened_at, c.id) < (%(at)s, %(id)s)
and
\ir of_status.sql
