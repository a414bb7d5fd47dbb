-- use_keys --
-- Write the uses of keys that still exist, in the order of their names so that two processes cannot deadlock. The keys
-- are held until that is committed: whoever deletes one finds its use afterwards.
insert into key_uses (project_id, id, last_used_at)
select o.project_id, o.id, (select service_seconds())
from unnest(%(scopes)s::text[], %(ids)s::text[]) u(project_id, id) join api_keys o using (project_id, id)
order by o.project_id, o.id
for key share of o
on conflict (project_id, id) do update set last_used_at = excluded.last_used_at
where key_uses.last_used_at <= excluded.last_used_at - %(kept)s

-- use_sessions --
-- Write the uses of sessions that still exist, as use_keys does.
insert into session_uses (project_id, id, last_used_at)
select o.project_id, o.id, (select service_seconds())
from unnest(%(scopes)s::text[], %(ids)s::text[]) u(project_id, id) join sessions o using (project_id, id)
order by o.project_id, o.id
for key share of o
on conflict (project_id, id) do update set last_used_at = excluded.last_used_at
where session_uses.last_used_at <= excluded.last_used_at - %(kept)s

-- use_credentials --
-- Write the uses of credentials that still exist, as use_keys does.
insert into credential_uses (project_id, id, last_used_at)
select o.project_id, o.id, (select service_seconds())
from unnest(%(scopes)s::text[], %(ids)s::text[]) u(project_id, id) join credentials o using (project_id, id)
order by o.project_id, o.id
for key share of o
on conflict (project_id, id) do update set last_used_at = excluded.last_used_at
where credential_uses.last_used_at <= excluded.last_used_at - %(kept)s

-- session --
-- The open session of a secret, its person, and whether they signed in lately.
select t.id, t.project_id, t.authenticated_at >= (select service_seconds()) - %(fresh)s::bigint
from sessions t
where t.secret_hash = %(digest)s and t.status = 'open' and t.expires_at > (select service_seconds())
limit 1

-- credential --
-- The live credential of a secret, who pays for its project, and whether that is active.
select row_to_json(t)::text,
    coalesce(paying_account(project => t.project_id, maker => p.created_by), t.project_id),
    coalesce(owned_status(project => p.project_id, status => p.status) = 'active', false)
from credentials t left join projects p on p.project_id = t.project_id and p.id = t.project_id
where t.secret_hash = %(digest)s and t.revoked_at is null and t.expires_at > (select service_seconds())
limit 1

-- exchanged --
-- The live exchanged credential of a secret, while its binding is in force; who pays for its project, and whether that
-- is active.
select row_to_json(t)::text,
    coalesce(paying_account(project => t.project_id, maker => p.created_by), t.project_id),
    coalesce(owned_status(project => p.project_id, status => p.status) = 'active', false)
from exchanged_secrets s
join exchanged_credentials t on t.project_id = s.project_id and t.id = s.id
left join projects p on p.project_id = t.project_id and p.id = t.project_id
where s.secret_hash = %(digest)s and t.expires_at > (select service_seconds()) and exists (
    select from ci_bindings b cross join jsonb_array_elements(b.bindings) e(binding)
    where b.project_id = t.project_id and e.binding ->> 'id' = t.binding_id)
limit 1

-- dsn --
-- The project of a DSN, who pays for it, whether it is active, and its settings for what it sends.
select p.id, paying_account(project => p.id, maker => p.created_by),
    owned_status(project => p.project_id, status => p.status) = 'active',
    coalesce(s.default_level, d.default_level, 'error'), coalesce(s.frame_variables, false)
from projects p
left join public_dsns d on d.project_id = p.project_id and d.id = p.id
left join project_settings s on s.project_id = p.project_id
where p.dsn_hash = %(digest)s
limit 1

-- public_dsn --
-- The project of a public DSN, who pays for it, whether it is active, and its settings for what it sends.
select p.id, paying_account(project => p.id, maker => p.created_by),
    owned_status(project => p.project_id, status => p.status) = 'active',
    coalesce(s.default_level, d.default_level), coalesce(s.frame_variables, false)
from public_dsns d
join projects p on p.project_id = d.project_id and p.id = d.project_id
left join project_settings s on s.project_id = p.project_id
where d.dsn_hash = %(digest)s
limit 1

-- former --
-- The account that a key was of which its deletion took along: the deletion remembers it, to show it the receipt
-- (G-130).
select d.account_id
from deletions d
where d.api_key_sha256 = %(digest)s and d.api_key_sha256 <> '' and d.kind = 'account'
    and (d.deleted_at is null or d.deleted_at > (select service_seconds()) - %(kept)s)
limit 1

-- asked --
-- Whether an account has asked for the deletion of something, and that has begun.
select exists (
    select from deletions d
    where d.scope_id = %(scope_id)s and d.account_id = %(account_id)s and d.phase <> 'fenced')

-- role_of_member --
-- What a person is in a project, and how the project stands. Auditors have a table of their own.
select m.role, owned_status(project => p.project_id, status => p.status)
from projects p
join (
    select role from memberships where project_id = %(project_id)s and id = %(membership_id)s
    union all
    select 'auditor' from auditors where project_id = %(project_id)s and id = %(membership_id)s
) m on true
where p.project_id = %(project_id)s and p.id = %(project_id)s

-- status_of_project --
-- How a project stands.
select owned_status(project => p.project_id, status => p.status)
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s
