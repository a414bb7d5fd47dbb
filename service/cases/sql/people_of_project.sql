-- Who met the newest errors of a project since a time, most errors first; with how many errors and people there are.
with errors as (
    select e.user_id, e.fingerprint, e.received_at,
        case when jsonb_typeof(e.user_data -> 'email') = 'string' then e.user_data ->> 'email' end as email
    from (
        select * from log_events l where l.project_id = %(project_id)s and l.received_at >= %(since)s
        order by l.received_at desc, l.id desc limit %(most)s) e
    where e.case_id is not null
), people as (
    select e.user_id, (array_agg(e.email order by e.received_at desc) filter (where e.email is not null))[1],
        count(*) as errors, count(distinct e.fingerprint), max(e.received_at)
    from errors e where e.user_id is not null group by e.user_id
)
select (select count(*) from errors), (select count(*) from people), p.*
from (select 1) one left join (select * from people order by errors desc, user_id limit %(shown)s) p on true
