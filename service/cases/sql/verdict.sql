-- Why a map cannot be taken apart with a minified file, if somebody has found that.
select b.verdict
from source_map_blobs b
where b.project_id = %(project_id)s and b.id = %(blob_id)s and b.verdict is not null
    and b.verdict_with = %(source_blob_id)s
