-- What the errors of a case say that is new today, and alone: one partition tells all. Named, it needs no plan for each
-- time: that took six times as long as to run it.
select json_build_object('latest', e.latest, 'grouped_by', e.grouped_by, 'days', coalesce((
    select json_object_agg(o.day, o.events)
    from (
        select %(today)s::bigint as day, count(*) as events
        from (
            select from {table} e
            where e.project_id = %(project_id)s and e.case_id = %(case_id)s and e.received_at <= %(last)s
            limit 5000) e) o
    where o.events > 0), '{}'))::text
from (values (true)) always
left join lateral (
    select
    \ir parts/latest.sql
    as latest, e.grouped_by
    from {table} e
    where e.project_id = %(project_id)s and e.case_id = %(case_id)s and e.received_at = %(last)s
    order by e.id desc limit 1) e on true
