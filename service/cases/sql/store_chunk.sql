-- Keep a part of a bundle for a while. The key is looked at again in the statement that writes: it may have ended since
-- the request began. Both rows are held, so that whoever ends the key or fences the account comes before the part,
-- which is not stored then, or after it.
insert into upload_chunks (project_id, id, size, content, stored_at)
select p.id, %(id)s, %(size)s, %(content)s, (select service_seconds())
from people p
join api_keys k on k.project_id = p.project_id and k.id = %(key_id)s and k.key_hash = %(digest)s
    and k.revoked_at is null
where p.project_id = %(user_id)s and p.id = %(user_id)s and p.status = 'active'
for share of p, k
on conflict (project_id, id) do update set stored_at = excluded.stored_at
