-- Add to what was not kept of projects, by kind and day. A project that is being deleted gets no more rows: it is held,
-- so that its fence comes before this or after it.
with clock as (select service_seconds() as now)
insert into kinds_not_kept as k (project_id, day, protocol, kind, outcome, amount, last_at)
select p.project_id, clock.now - clock.now %% 86400, u.protocol, u.kind, u.outcome, u.amount, clock.now
from clock cross join unnest(%(project_ids)s::text[], %(protocols)s::text[], %(kinds)s::text[], %(outcomes)s::text[],
    %(amounts)s::bigint[]) u(project_id, protocol, kind, outcome, amount)
join projects p on p.project_id = u.project_id and p.id = u.project_id and p.status = 'active'
order by p.project_id, u.protocol, u.kind, u.outcome
for share of p
on conflict (project_id, day, protocol, kind, outcome) do update set
    amount = k.amount + excluded.amount,
    last_at = greatest(k.last_at, excluded.last_at)
