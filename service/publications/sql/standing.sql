-- Whether a query is published in a project that is not being deleted, by its id alone: each answer asks.
select p.project_id, p.key_hash, p.cache_seconds, (select service_seconds())
from publications p join projects o on o.project_id = p.project_id and o.id = p.project_id
where p.id = %(id)s and p.status = 'published'
    and owned_status(project => o.project_id, status => o.status) = 'active'
