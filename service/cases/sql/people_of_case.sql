-- Who met the errors of a case and of those merged into it, most errors first, each under the name that the person is
-- called by; with how many cases these are, and how many names of the one with the most were looked at.
with ids as (
    select c.id from cases c where c.project_id = %(project_id)s and c.id = %(case_id)s
    union all
    select m.id from cases m where m.project_id = %(project_id)s and m.merged_into = %(case_id)s
), seen as (
    select u.* from ids i cross join lateral (
        select * from case_users u where u.project_id = %(project_id)s and u.case_id = i.id
        order by u.user_id limit %(most)s) u
), people as (
    select coalesce(n.person, s.user_id) as user_id,
        (array_agg(s.user_email order by s.last_seen_at desc) filter (where s.user_email is not null))[1],
        sum(s.error_count)::bigint as errors, count(distinct s.case_id), max(s.last_seen_at)
    from seen s left join person_names n on n.project_id = s.project_id and n.name = s.user_id
    group by 1
)
select (select count(*) from ids), (select max(n) from (select count(*) as n from seen group by case_id) x), p.*
from (select 1) one left join (select * from people order by errors desc, user_id limit %(shown)s) p on true
