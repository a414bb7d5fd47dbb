-- Whose the name in error `e` is, as names.sql.
left join person_names n on n.project_id = e.project_id and n.name = e.user_id
