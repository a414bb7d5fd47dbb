-- What a publication asks, and who pays for its project.
select p.blueprint_id, p.params, p.title,
    coalesce(paying_account(project => o.id, maker => o.created_by), o.id)
from publications p join projects o on o.project_id = p.project_id and o.id = p.project_id
where p.project_id = %(project_id)s and p.id = %(id)s
