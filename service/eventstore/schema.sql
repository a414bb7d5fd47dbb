-- describe --
-- Triggers and constraints, one a line. Partitions have the constraints of their tables; those of the job library are
-- its own.
select line from (
select concat_ws(' ', 'trigger', c.relname, t.tgname, case t.tgenabled when 'A' then 'always' when 'O' then 'on' else
    'off' end, pg_get_triggerdef(t.oid))
from pg_trigger t join pg_class c on c.oid = t.tgrelid
where not t.tgisinternal and c.relnamespace = current_schema()::regnamespace and not starts_with(c.relname,
    'procrastinate_')
union all
select concat_ws(' ', 'constraint', c.relname, k.conname, case when k.convalidated then 'on' else 'off' end,
    pg_get_constraintdef(k.oid))
from pg_constraint k join pg_class c on c.oid = k.conrelid
where k.contype in ('p', 'u', 'c', 'f') and c.relnamespace = current_schema()::regnamespace and not c.relispartition
    and not starts_with(c.relname, 'procrastinate_')
    ) described(line) order by line collate "C"

-- bodies_of_functions --
-- The bodies of functions, with their rights and settings.
select p.proname::text, p.prosrc, p.prosecdef, coalesce(p.proconfig, '{}')
from pg_proc p where p.proname = any(%s) and p.pronamespace = current_schema()::regnamespace

-- functions_by_release --
-- Which release applied each function.
select name, release from schema_functions

-- owners --
-- Whoever else could take away what guards the history: owners of a table, a function, the schema or the database, and
-- roles that may change events.
with mine as (select relowner from pg_class where oid = 'events'::regclass)
select 'table_of_another_owner', format('%s belongs to %s', c.relname, pg_get_userbyid(c.relowner))
from pg_class c, mine where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
    and c.relowner <> mine.relowner
union all
select 'function_of_another_owner', format('%s belongs to %s', p.proname, pg_get_userbyid(p.proowner))
from pg_proc p, mine where p.pronamespace = current_schema()::regnamespace and p.proowner <> mine.relowner
union all
select 'database_of_another_owner', format('%s owns the %s', r.rolname, o.what)
from mine, (select 'database' as what, datdba as owner from pg_database where datname = current_database()
    union all select 'schema', nspowner from pg_namespace where nspname = current_schema()) o
join pg_roles r on r.oid = o.owner
where o.owner <> mine.relowner and not r.rolsuper and r.rolname <> 'pg_database_owner'
union all
select 'may_change_history', format('%s may %s events', r.rolname, w.what)
from mine, pg_roles r, unnest(array['UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) w(what)
where r.rolcanlogin and not r.rolsuper and not pg_has_role(r.oid, mine.relowner, 'member') and (
    has_table_privilege(r.oid, 'events', w.what)
    or (w.what = 'UPDATE' and has_any_column_privilege(r.oid, 'events', w.what)))
order by 1, 2

-- serving_role --
-- What the role of this connection may do to the history.
select r.rolname::text, r.rolsuper, pg_has_role(current_user, c.relowner, 'member')
    or pg_has_role(current_user, (select nspowner from pg_namespace where nspname = current_schema()), 'member'),
    has_table_privilege('events', 'INSERT')
from pg_roles r, pg_class c where r.rolname = current_user and c.oid = 'events'::regclass

-- function_ledger --
-- Checksum and release of each applied function.
select name, checksum, release from schema_functions

-- signatures --
-- The parameters and results of functions. Also of those that were made by a migration: the ledger alone does not tell
-- whether a function is there.
select p.proname::text, array_agg(format('(%%s) returns %%s',
    pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid)) order by p.oid)
from pg_proc p where p.proname = any(%s) and p.pronamespace = current_schema()::regnamespace group by 1

-- record_function --
-- Record that a function was applied.
insert into schema_functions (name, checksum, release) values (%s, %s, %s)
on conflict (name) do update
set checksum = excluded.checksum, release = excluded.release, applied_at = excluded.applied_at

-- tables --
-- The tables and views.
select c.relname::text from pg_class c where c.relkind in ('r', 'p', 'v')
    and c.relnamespace = current_schema()::regnamespace order by 1

-- owner --
-- Who owns the tables, and whether this role may act as them.
select pg_get_userbyid(c.relowner)::text, pg_has_role(current_user, c.relowner, 'usage') from pg_class c
where c.oid = to_regclass('schema_migrations')

-- role --
-- Whether a role is a superuser, owns the tables, and may append to the history.
select r.rolsuper, pg_has_role(r.oid, c.relowner, 'member'), has_table_privilege(r.oid, c.oid, 'insert')
from pg_roles r, pg_class c where r.rolname = %s and c.oid = 'events'::regclass

-- attributes --
-- The attributes of a role that no grant limits.
select concat_ws(', ', case when rolsuper then 'superuser' end, case when rolbypassrls then 'bypassrls' end,
    case when rolcreaterole then 'createrole' end, case when rolreplication then 'replication' end)
from pg_roles where rolname = %s

-- member_of --
-- The roles whose member a role is.
select string_agg(r.rolname, ', ' order by r.rolname) from pg_auth_members m
join pg_roles r on r.oid = m.roleid where m.member = %s::regrole

-- connects --
-- Whether a role may connect to this database.
select has_database_privilege(%s, current_database(), 'connect')

-- open_functions --
-- Those of some functions that everybody may call.
select p.proname::text from pg_proc p where p.proname = any(%s)
    and p.pronamespace = current_schema()::regnamespace and has_function_privilege('public', p.oid, 'execute')

-- granted --
-- What a role may do, a table a line.
select format('%%s on %%s', string_agg(lower(a.privilege_type), ', ' order by a.privilege_type), c.relname)
from pg_class c, aclexplode(c.relacl) a where c.relnamespace = current_schema()::regnamespace
    and a.grantee = %s::regrole group by c.relname order by c.relname

-- rights --
-- The rights on a table and the roles that have them.
select a.privilege_type, pg_get_userbyid(a.grantee)::text from pg_class c, aclexplode(c.relacl) a
where c.oid = %s::regclass and a.grantee <> c.relowner and a.grantee <> 0
