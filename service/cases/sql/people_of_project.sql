-- Who met errors of a project that happened since a time, most errors first, each under the name that the person is
-- called by; with how many errors and people there are, and when the oldest row looked at was received, where as many
-- were looked at as may be. What happened after that was received after that, and was looked at. Kinds and addresses
-- are told of the people shown alone: to tell those of all costs twice as much as everything else.
with looked as materialized (
    select coalesce(n.person, l.user_id) as user_id, l.user_data, l.fingerprint, l.received_at, l.happened, l.case_id
    from (
        select l.project_id, l.user_id, l.user_data, l.fingerprint, l.received_at, l.case_id,
            coalesce(l.occurred_at, l.received_at) as happened
        from log_events l
        where l.project_id = %(project_id)s and l.received_at >= %(since)s
        order by l.received_at desc, l.id desc limit %(most)s
    ) l
    left join person_names n on n.project_id = l.project_id and n.name = l.user_id
), bound as (
    select min(received_at) as oldest from looked having count(*) = %(most)s
), counted as (
    select * from looked
    where case_id is not null and happened >= greatest(%(since)s, (select oldest from bound))
), people as (
    select e.user_id, count(*) as errors, max(e.received_at) as last_at
    from counted e where e.user_id is not null group by e.user_id
), shown as (
    select * from people order by errors desc, user_id limit %(shown)s
), told as (
    select e.user_id, count(distinct e.fingerprint) as kinds,
        (array_agg(e.user_data ->> 'email' order by e.received_at desc)
            filter (where jsonb_typeof(e.user_data -> 'email') = 'string'))[1] as email
    from counted e join shown s on s.user_id = e.user_id group by e.user_id
)
select (select count(*) from counted), (select count(*) from people), (select oldest from bound),
    s.user_id, t.email, s.errors, t.kinds, s.last_at
from (select 1) one left join (shown s join told t on t.user_id = s.user_id) on true
order by s.errors desc, s.user_id
