-- Begin to store bytes that nothing keeps yet, in an active project with few of these. The row of the project is held
-- until the blob is there: a fence waits for it, and a purge after the fence finds it.
insert into source_map_blobs (project_id, id, kept, stored_at)
select p.id, %(blob_id)s, false, (select service_seconds())
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s
    and owned_status(project => p.project_id, status => p.status) = 'active'
    and (select count(*) from source_map_blobs b where b.project_id = p.project_id and not b.kept) < %(most)s
for share of p
