-- Keep with a map why it cannot be taken apart with a minified file.
update source_map_blobs b set verdict = %(verdict)s, verdict_with = %(source_blob_id)s
where b.project_id = %(project_id)s and b.id = %(blob_id)s
