-- What the errors of a case say that is new today, and alone: one partition tells all, also of what happened on a day
-- before. Named, it needs no plan for each time: that took six times as long as to run it.
select json_build_object('latest', e.latest, 'grouped_by', e.grouped_by, 'days', coalesce((
    select json_object_agg(o.day, o.events)
    from (
        select e.happened - mod(e.happened, 86400) as day, count(*) as events
        from (
            select coalesce(e.occurred_at, e.received_at) as happened from {table} e
            where e.project_id = %(project_id)s and e.case_id = %(case_id)s and e.received_at <= %(last)s
            order by e.received_at desc, e.id desc limit 5000) e
        group by 1) o), '{}'))::text
from (values (true)) always
left join lateral (
    select
    \ir parts/latest.sql
    as latest, e.grouped_by
    from {table} e
    where e.project_id = %(project_id)s and e.case_id = %(case_id)s and e.received_at = %(last)s
    order by e.id desc limit 1) e on true
