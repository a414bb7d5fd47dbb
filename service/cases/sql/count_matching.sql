-- How many rows of a stretch of time there are of cases with errors of their own alone, how many of the others, and how
-- many of all that a pattern matches fall into each of three windows. Each case is looked up in the index of cases: a
-- planner that took them all together would read what all others had.
select count(*) filter (where e.own), count(*) filter (where not e.own),
    count(*) filter (where e.wanted and e.by_rows <= %(first)s and e.received_at >= %(first)s),
    count(*) filter (where e.wanted and e.by_rows <= %(second)s and e.received_at >= %(second)s),
    count(*) filter (where e.wanted and e.by_rows <= %(third)s and e.received_at >= %(third)s)
from (
    (select l.received_at, o.by_rows, true as own, true as wanted
    from unnest(%(own)s::text[], %(own_since)s::bigint[]) as o(id, by_rows)
    cross join lateral (
        select e.received_at from log_events e
        where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at >= o.by_rows
            and e.received_at >= %(low)s and e.received_at < %(edge)s offset 0) l
    limit %(most)s)
    union all
    (select l.received_at, 0, false, l.fingerprint like %(like)s
    from unnest(%(mixed)s::text[]) as o(id)
    cross join lateral (
        select e.received_at, e.fingerprint from log_events e
        where e.project_id = %(project_id)s and e.case_id = o.id
            and e.received_at >= %(low)s and e.received_at < %(edge)s offset 0) l
    limit %(most_mixed)s)
) e
