-- Delete some of the oldest errors of a project in a partition, and keep samples of their cases; returns how many went,
-- and when the last of them was received. Rows go oldest first, so the last sample that is taken is of the last error.
with gone as (
    \ir parts/doomed.sql
    returning e.project_id, e.received_at, e.occurred_at, e.id, e.case_id, e.message, e.level, e.environment, e.release,
        e.user_id, e.tags, e.adjusted, e.public
), newest as (
    select distinct on (g.case_id) g.* from gone g where g.case_id is not null
    order by g.case_id, g.received_at desc, g.id desc
), kept as (
    update case_stats c set sample =
    \ir parts/sample.sql
    from newest n
    where c.project_id = n.project_id and c.id = n.case_id and (
        c.sample is null or n.received_at >= coalesce(c.own_last_seen_at, c.last_seen_at))
)
select count(*), coalesce(max(g.received_at), 0) from gone g
