-- Of what a ledger names as erased what is there all the same: the scope is there, and its deletion is not known, or
-- has not come to its purge.
select l.scope_id, l.deletion_id, l.at
from unnest(%(scopes)s::text[], %(deletions)s::text[], %(times)s::bigint[]) l(scope_id, deletion_id, at)
left join deletions d on d.project_id = l.deletion_id and d.id = l.deletion_id
where (d.phase = 'fenced' or (d.id is null and not exists (
        select from stream_heads h where h.project_id = l.deletion_id and h.stream_id = l.deletion_id)))
    and (exists (select from projects p where p.project_id = l.scope_id and p.id = l.scope_id)
        or exists (
            select from people p where p.project_id = l.scope_id and p.id = l.scope_id and p.created_at <= l.at))
order by l.at, l.deletion_id
