-- Write the uses of sessions that still exist, as use_keys does.
insert into session_uses (project_id, id, last_used_at)
select o.project_id, o.id, (select service_seconds())
from unnest(%(scopes)s::text[], %(ids)s::text[]) u(project_id, id) join sessions o using (project_id, id)
order by o.project_id, o.id
for key share of o
on conflict (project_id, id) do update set last_used_at = excluded.last_used_at
where session_uses.last_used_at <= excluded.last_used_at - %(kept)s
