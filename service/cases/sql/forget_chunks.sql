-- Delete parts that are stored elsewhere by now.
delete from upload_chunks c where c.project_id = %(user_id)s and c.id = any(%(ids)s)
