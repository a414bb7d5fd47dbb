-- The open cases of project `p` that a look is about: the 500 most frequent ones. Which they are is told by counts
-- alone; what is read beside these is read of the picked ones only, and what was read to pick a case is not looked up
-- again. Of up to 1,000 open cases all are compared. Of more the most frequent are walked through: `frequency` orders
-- them roughly, so all that are as frequent as the last one are compared, too. (`offset 0` and the question for one
-- status keep the planner, which knows little of a young database, from turning the order round.)
select o.*
from (select count(*) > 1000 as many
    from (select from cases where project_id = p.id and status = 'open' limit 1001) c) n
cross join lateral (
    (select c.project_id, c.id, c.case_revision, s.*
    from (select project_id, id, case_revision from cases where project_id = p.id and status = 'open' offset 0) c
    cross join lateral (
        select event_count, last_seen_at, first_seen_at, unmarked, environments from case_stats
        where project_id = c.project_id and id = c.id offset 0) s
    where not n.many)
    union all
    (select s.project_id, s.id, (select case_revision from cases where project_id = s.project_id and id = s.id),
        event_count, last_seen_at, first_seen_at, unmarked, environments
    from (
        select project_id, id, event_count, last_seen_at, first_seen_at, unmarked, environments
        from case_stats s
        where n.many and s.project_id = p.id
            and (select c.status = 'open' from cases c where c.project_id = s.project_id and c.id = s.id)
        order by s.frequency desc fetch first 500 rows with ties) s)
) o
order by o.event_count desc, o.last_seen_at desc, o.id
limit 500
