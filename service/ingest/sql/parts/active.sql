-- The projects that are not being deleted.
select p.project_id from projects p where p.status = 'active' and p.id = p.project_id
