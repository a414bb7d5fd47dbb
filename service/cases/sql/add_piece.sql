-- Store a piece of bytes that nothing keeps yet. Their row is held until it is there: whoever deletes that finds all
-- pieces afterwards.
insert into source_map_pieces (project_id, blob_id, number, content)
select b.project_id, b.id, %(number)s, %(content)s
from source_map_blobs b
where b.project_id = %(project_id)s and b.id = %(blob_id)s and not b.kept
for key share of b
