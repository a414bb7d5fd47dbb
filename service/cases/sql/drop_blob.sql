-- Delete bytes unless something keeps them.
with over as (
    select b.project_id, b.id from source_map_blobs b
    where b.project_id = %(project_id)s and b.id = %(blob_id)s and not b.kept
    for update
), pieces as (
    delete from source_map_pieces p using over o where p.project_id = o.project_id and p.blob_id = o.id
)
delete from source_map_blobs b using over o where b.project_id = o.project_id and b.id = o.id
