-- Whether there is any stream in a project.
select exists (select from stream_heads where project_id = %(project_id)s)
