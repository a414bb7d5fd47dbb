-- The position of the first event of a project.
select i.position from events e join log_index i on i.seq = e.seq
where e.project_id = %(project_id)s and e.stream_id = %(project_id)s and e.revision = 1
