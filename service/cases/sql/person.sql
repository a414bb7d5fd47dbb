-- What is known of a person: how many events of each kind up to a bound, the first and the last, and a mail address.
select x.analytics, y.logs, y.errors,
    least(
        (select min(a.received_at) from analytics_events a
            where a.project_id = %(project_id)s and a.distinct_id = %(person)s),
        (select min(l.received_at) from log_events l where l.project_id = %(project_id)s and l.user_id = %(person)s)),
    greatest(
        (select max(a.received_at) from analytics_events a
            where a.project_id = %(project_id)s and a.distinct_id = %(person)s),
        (select max(l.received_at) from log_events l where l.project_id = %(project_id)s and l.user_id = %(person)s)),
    (select l.user_data ->> 'email'
        from (select * from log_events l where l.project_id = %(project_id)s and l.user_id = %(person)s
            order by l.received_at desc limit %(recent)s) l
        where jsonb_typeof(l.user_data -> 'email') = 'string'
        order by l.received_at desc limit 1)
from (
    select count(*) as analytics from (
        select from analytics_events a where a.project_id = %(project_id)s and a.distinct_id = %(person)s
        limit %(most)s) a) x
cross join (
    select count(*) as logs, count(*) filter (where l.case_id is not null) as errors from (
        select l.case_id from log_events l where l.project_id = %(project_id)s and l.user_id = %(person)s
        order by l.received_at desc limit %(most)s) l) y
