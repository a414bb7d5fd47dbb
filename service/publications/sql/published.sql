-- The published queries of a project, newest first: as many as it may have.
select row_to_json(p)::text
from publications p
where p.project_id = %(project_id)s and p.status = 'published'
order by p.created_at desc, p.id desc
limit %(most)s
