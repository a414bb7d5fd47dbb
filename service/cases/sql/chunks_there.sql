-- Those of some parts that a person has sent lately.
select c.id from upload_chunks c where c.project_id = %(user_id)s and c.id = any(%(ids)s)
