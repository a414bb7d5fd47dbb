-- Whether anybody in the project has more than one name.
exists (select from person_names n where n.project_id = %(project_id)s)
