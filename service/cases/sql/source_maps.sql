-- A page of the files of a project, newest first.
select row_to_json(m)::text
from source_maps m
where m.project_id = %(project_id)s and m.removed_at is null and (m.stored_at, m.id) < (%(at)s, %(id)s)
order by m.stored_at desc, m.id desc
limit %(limit)s
