-- Find the errors of a project's reports that came before them: they say whose such a report is.
select settle_feedback(project => %(project_id)s, seconds => %(seconds)s, most => null)
