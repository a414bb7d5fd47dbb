-- Some of the names that a project's telemetry has, those after one, in order: of events, of errors, of the people of
-- cases, joined ones, those that a product told of, and those of people who wrote something. Each is found by a step in
-- an index.
with recursive step(name, n) as (
    (select least(
        (select min(e.distinct_id) from analytics_events e
            where e.project_id = %(project_id)s and e.distinct_id > %(after)s),
        (select min(e.user_id) from log_events e where e.project_id = %(project_id)s and e.user_id > %(after)s),
        (select min(u.user_id) from case_users u where u.project_id = %(project_id)s and u.user_id > %(after)s),
        (select min(w.name) from person_names w where w.project_id = %(project_id)s and w.name > %(after)s),
        (select min(t.id) from telemetry_people t where t.project_id = %(project_id)s and t.id > %(after)s),
        (select min(f.user_id) from feedback_reports f where f.project_id = %(project_id)s and f.user_id > %(after)s),
        (select min(f.email) from feedback_reports f where f.project_id = %(project_id)s and f.email > %(after)s),
        (select min(f.error_user) from feedback_reports f
            where f.project_id = %(project_id)s and f.error_user > %(after)s)), 1)
    union all
    select least(
        (select min(e.distinct_id) from analytics_events e
            where e.project_id = %(project_id)s and e.distinct_id > s.name),
        (select min(e.user_id) from log_events e where e.project_id = %(project_id)s and e.user_id > s.name),
        (select min(u.user_id) from case_users u where u.project_id = %(project_id)s and u.user_id > s.name),
        (select min(w.name) from person_names w where w.project_id = %(project_id)s and w.name > s.name),
        (select min(t.id) from telemetry_people t where t.project_id = %(project_id)s and t.id > s.name),
        (select min(f.user_id) from feedback_reports f where f.project_id = %(project_id)s and f.user_id > s.name),
        (select min(f.email) from feedback_reports f where f.project_id = %(project_id)s and f.email > s.name),
        (select min(f.error_user) from feedback_reports f
            where f.project_id = %(project_id)s and f.error_user > s.name)), s.n + 1
    from step s where s.name is not null and s.n < %(most)s
)
select s.name from step s where s.name is not null order by s.n
