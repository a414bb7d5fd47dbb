-- Whose the name of event `e` is. Where `linked` is false, nobody asks, and the planner leaves it out.
left join person_names n on n.project_id = e.project_id and n.name = e.distinct_id
