-- Cases of a status after a place, oldest first, with their fingerprints.
select c.opened_at, c.id, c.fingerprint
from cases c
where c.project_id = %(project_id)s and c.status = %(status)s and (c.opened_at, c.id) > (%(at)s, %(id)s)
order by c.opened_at, c.id
limit %(most)s
