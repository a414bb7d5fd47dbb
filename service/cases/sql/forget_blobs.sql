-- Delete some of the oldest bytes that nothing keeps.
with over as (
    select b.project_id, b.id from source_map_blobs b
    where not b.kept and b.stored_at < (select service_seconds()) - %(kept)s
    order by b.stored_at limit %(most)s
    for update skip locked
), pieces as (
    delete from source_map_pieces p using over o where p.project_id = o.project_id and p.blob_id = o.id
)
delete from source_map_blobs b using over o where b.project_id = o.project_id and b.id = o.id
