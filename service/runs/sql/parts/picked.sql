-- The open cases of project `p` that a look is about: the 500 most frequent ones. Which they are is told by counts
-- alone; what is read beside these is read of the picked ones only, and what was read to pick a case is not looked up
-- again. Of up to 1,000 open cases all are compared. Of more the most frequent are walked through: `frequency` orders
-- them roughly, so all that are as frequent as the last one are compared, too. (`offset 0` and the question for one
-- status keep the planner, which knows little of a young database, from turning the order round.) Where errors by the
-- public DSN are not accepted, counts are those of the others, and a case without any of these is not looked at. What
-- the connected provider counted is one of the others (G-182).
select o.project_id, o.id, o.case_revision, o.first_seen_at, o.event_count, o.last_seen_at, o.unmarked, o.environments,
    o.provider_count
from (select count(*) > 1000 as many, not accepts_public(project => p.id) as strict
    from (select from cases where project_id = p.id and status = 'open' limit 1001) c) n
cross join lateral (
    select f.project_id, f.id, f.case_revision, f.first_seen_at, f.provider_count,
        case when f.apart then greatest(coalesce(f.own_count, f.event_count) - f.public_count, f.provider_count)
            else f.event_count end as event_count,
        case when f.apart then nullif(f.server_last_seen_at, 0) else f.last_seen_at end as last_seen_at,
        case when f.apart then f.server_unmarked else f.unmarked end as unmarked,
        case when f.apart then f.server_environments else f.environments end as environments
    from (
        (select c.project_id, c.id, c.case_revision, s.*, n.strict and s.public_count > 0 as apart
        from (select project_id, id, case_revision from cases where project_id = p.id and status = 'open' offset 0) c
        cross join lateral (
            select event_count, last_seen_at, first_seen_at, unmarked, environments, public_count, server_last_seen_at,
                server_unmarked, server_environments, own_count, provider_count
            from case_stats where project_id = c.project_id and id = c.id offset 0) s
        where not n.many and (not n.strict or s.public_count < s.event_count or s.provider_count > 0))
        union all
        (select s.project_id, s.id, (select case_revision from cases where project_id = s.project_id and id = s.id),
            event_count, last_seen_at, first_seen_at, unmarked, environments, public_count, server_last_seen_at,
            server_unmarked, server_environments, own_count, provider_count, n.strict and s.public_count > 0
        from (
            select project_id, id, event_count, last_seen_at, first_seen_at, unmarked, environments, public_count,
                server_last_seen_at, server_unmarked, server_environments, own_count, provider_count
            from case_stats s
            where n.many and s.project_id = p.id
                and (not n.strict or s.public_count < s.event_count or s.provider_count > 0)
                and (select c.status = 'open' from cases c where c.project_id = s.project_id and c.id = s.id)
            order by s.frequency desc fetch first 500 rows with ties) s)
    ) f
) o
order by o.event_count desc, o.last_seen_at desc nulls last, o.id
limit 500
