-- How much is due in some steps, and for how many seconds it has waited at most.
select w.step, count(d.id),
    coalesce(max(extract(epoch from (select service_now()) - greatest(d.considered_at, d.since))), 0)::bigint
from unnest(%(steps)s::text[]) with ordinality w(step, place)
left join (
    select d.step, d.id, d.since, t.considered_at
    from (
        \ir parts/due.sql
    ) d
    join projects p on p.project_id = d.project_id and p.id = d.project_id and p.status = 'active'
    left join sweep_turns t on t.project_id = d.project_id and t.step = d.step and t.id = d.id
) d on d.step = w.step
group by w.step, w.place
order by w.place
