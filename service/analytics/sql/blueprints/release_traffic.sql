-- How many events name each of some releases in a period. SDKs name it in one of three properties; the first text
-- counts.
select t.release, count(*)
from (
    select coalesce(nullif(e.properties ->> 'release', ''), nullif(e.properties ->> '$release', ''),
        e.properties ->> '$app_version') as release
    from analytics_events e
    where e.project_id = %(project_id)s and
    \ir parts/within.sql
    ) t
where t.release = any(%(releases)s::text[])
group by t.release
limit %(most)s
