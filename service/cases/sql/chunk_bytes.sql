-- How many bytes of a person's parts wait to be named.
select coalesce(sum(c.size), 0)::bigint from upload_chunks c where c.project_id = %(user_id)s
