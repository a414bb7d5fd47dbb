-- What is left of a deletion, each number up to a bound: projects of an account, open objects of automation, records of
-- telemetry.
select
    (select count(*) from (
        select from memberships m
            join projects p on p.project_id = m.project_id and p.id = m.project_id and p.status = 'active'
            where m.user_id = %(scope_id)s
        union all select from auditors m
            join projects p on p.project_id = m.project_id and p.id = m.project_id and p.status = 'active'
            where m.user_id = %(scope_id)s
        limit %(most)s) x)
    + (select count(*) from deletions d where d.parent_id = %(deletion_id)s and d.phase <> 'deleted'),
    (select count(*) from (
        select from automation_runs t where t.project_id = %(scope_id)s and t.live
        union all select from trigger_receipts t
            where t.project_id = %(scope_id)s and t.status in ('issued', 'claimed')
        union all select from claims t where t.project_id = %(scope_id)s and t.status = 'active'
        limit %(most)s) x),
    (select count(*) from (
        select from log_events e where e.project_id = %(scope_id)s
        union all select from analytics_events e where e.project_id = %(scope_id)s
        limit %(most)s) x)
