-- What the errors say that are still kept of a case and of those merged into it: the latest one, why the case's own
-- latest was put here, how many happened a day. Where the connected provider counted more on a day, its number is
-- told. Of partitions by the day only those are planned, locked and opened whose days are named: in a statement that is
-- planned for its values, and without any function of time.
select json_build_object(
    'latest', (
        select
        \ir parts/latest.sql
        from unnest(%(case_ids)s::text[]) as o(id)
        cross join lateral (
            select * from log_events e
            where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at = %(last)s
            order by e.id desc limit 1) e
        order by e.id desc limit 1),
    'grouped_by', (
        select e.grouped_by from log_events e
        where e.project_id = %(project_id)s and e.case_id = %(case_id)s and e.received_at = %(own_last)s
        order by e.id desc limit 1),
    'days', coalesce((
        select json_object_agg(x.day, x.events)
        from (
            select y.day, greatest(sum(y.events), sum(y.provided)) as events
            from (
                select e.happened - mod(e.happened, 86400) as day, count(*) as events, 0 as provided
                from unnest(%(case_ids)s::text[]) as o(id)
                cross join lateral (
                    select coalesce(e.occurred_at, e.received_at) as happened from log_events e
                    where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at >= %(since)s
                        and e.received_at <= %(last)s
                    order by e.received_at desc, e.id desc limit 5000) e
                group by 1
                union all
                select p.minute - mod(p.minute, 86400), 0, sum(p.errors)
                from provider_counts p
                where p.project_id = %(project_id)s and p.case_id = any(%(case_ids)s::text[])
                    and p.minute >= %(since)s
                group by 1) y
            group by 1) x), '{}'))::text
