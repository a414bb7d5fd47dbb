-- How many people came to each level of an ordered funnel and no further; levels that nobody stopped at are left out.
-- The time of a query is what bounds it. Within a scalar subquery the function is not called to plan what follows, too.
select r.level, r.people - r.further
from (
    select u.level, u.people, lead(u.people, 1, 0::bigint) over (order by u.level) as further
    from unnest((select funnel_by_time(project => %(project_id)s, steps => %(events)s::text[], since => %(since)s,
        until => %(until)s, most_rows => 1000000000, reach => %(reach)s))) with ordinality u(people, level)) r
where r.people > r.further
order by r.level
limit %(most)s
