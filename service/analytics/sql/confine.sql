-- Confines the rest of a transaction to the records of one project: its views show no others. Where there is a role for
-- queries, which has the name of the one that serves with _queries behind it, that one sees no more than the views.
select set_config('service.project_id', %(project_id)s, true), set_config('role', coalesce((
    select r.rolname::text from pg_roles r
    where r.rolname = session_user || '_queries' and pg_has_role(r.oid, 'member')), 'none'), true)
