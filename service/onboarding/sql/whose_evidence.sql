-- Whose evidence counts in a project.
select (
    \ir parts/evidence.sql
)::text
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s
