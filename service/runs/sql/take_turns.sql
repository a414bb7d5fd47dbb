-- Take the turns of objects that no other sweep has taken since this one began. Their projects are held until this is
-- committed: a purge finds the turn afterwards.
insert into sweep_turns (project_id, step, id, considered_at)
select n.project_id, %(step)s, n.id, (select service_now())
from unnest(%(projects)s::text[], %(ids)s::text[]) n(project_id, id)
join projects p on p.project_id = n.project_id and p.id = n.project_id
order by n.project_id, n.id
for key share of p
on conflict (project_id, step, id) do update set considered_at = excluded.considered_at
where sweep_turns.considered_at < %(began)s
returning project_id, id
