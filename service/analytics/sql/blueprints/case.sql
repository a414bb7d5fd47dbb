-- Whether a project has a case.
select true from cases c where c.project_id = %(project_id)s and c.id = %(case_id)s
limit %(most)s
