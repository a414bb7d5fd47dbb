-- The role under which callers' queries run: its name and whether there is one that may be taken and sees the views.
select session_user || '_queries', exists (
    select from pg_roles r where r.rolname = session_user || '_queries' and pg_has_role(r.oid, 'member')
        and coalesce(has_table_privilege(r.oid, to_regclass('queried_events'), 'select'), false))
