-- published --
-- The published queries of a project, newest first: as many as it may have.
select row_to_json(p)::text
from publications p
where p.project_id = %(project_id)s and p.status = 'published'
order by p.created_at desc, p.id desc
limit %(most)s

-- standing --
-- Whether a query is published in a project that is not being deleted, by its id alone: each answer asks.
select p.project_id, p.key_hash, p.cache_seconds, (select service_seconds())
from publications p join projects o on o.project_id = p.project_id and o.id = p.project_id
where p.id = %(id)s and p.status = 'published'
    and owned_status(project => o.project_id, status => o.status) = 'active'

-- question --
-- What a publication asks, and who pays for its project.
select p.blueprint_id, p.params, p.title,
    coalesce(paying_account(project => o.id, maker => o.created_by), o.id)
from publications p join projects o on o.project_id = p.project_id and o.id = p.project_id
where p.project_id = %(project_id)s and p.id = %(id)s
