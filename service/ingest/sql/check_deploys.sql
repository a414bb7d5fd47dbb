-- Deploys that are counted otherwise than they are kept, of as many days as usage is shown for.
select case when u.id is null then 'missing' when d.id is null then 'extra' else 'different' end, project_id, id
from deploys d full join usage_deploys u using (project_id, id)
where project_id in (
    \ir parts/active.sql
) and (
    d.id is null or u.day <> d.recorded_at - d.recorded_at %% 86400
    or u.id is null and d.recorded_at >= (select service_today()) - (%(days)s - 1) * 86400)
order by 2, 3
