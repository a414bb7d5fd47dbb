-- Write the uses of keys that still exist, in the order of their names so that two processes cannot deadlock. The keys
-- are held until that is committed: whoever deletes one finds its use afterwards.
insert into key_uses (project_id, id, last_used_at)
select o.project_id, o.id, (select service_seconds())
from unnest(%(scopes)s::text[], %(ids)s::text[]) u(project_id, id) join api_keys o using (project_id, id)
order by o.project_id, o.id
for key share of o
on conflict (project_id, id) do update set last_used_at = excluded.last_used_at
where key_uses.last_used_at <= excluded.last_used_at - %(kept)s
