-- Delete a project's looks that are past its days.
delete from automation_looks
where project_id = %(project_id)s and hour < (select service_seconds()) - %(days)s * 86400
