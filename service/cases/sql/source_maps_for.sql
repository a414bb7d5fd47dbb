-- The files that frames may belong to: by debug id, and by URL within a release. Each part takes its own index. A file
-- has few names in a release, and newest first means that an upload counts.
select row_to_json(m)::text
from source_maps m
where m.project_id = %(project_id)s and m.debug_id = any(%(debug_ids)s) and m.removed_at is null
union all
select row_to_json(m)::text
from (
    select m.* from source_maps m
    where m.project_id = %(project_id)s and m.release = %(release)s and m.source_url = any(%(urls)s)
        and m.removed_at is null
    order by m.stored_at desc, m.id desc limit %(most)s) m
