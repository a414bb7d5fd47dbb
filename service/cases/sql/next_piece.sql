-- The piece of a number, or the next one that there is.
select p.content
from source_map_pieces p
where p.project_id = %(project_id)s and p.blob_id = %(blob_id)s and p.number >= %(number)s
order by p.number
limit 1
