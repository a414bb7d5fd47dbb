-- One part of a bundle.
select c.content from upload_chunks c where c.project_id = %(user_id)s and c.id = %(id)s
