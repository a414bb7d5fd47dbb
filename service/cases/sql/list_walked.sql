-- A page of cases, as far as it is found among the newest: what is frequent is. Each counter is looked up by its key: a
-- planner that took them all together would read all counters of the project.
\ir parts/shown.sql
from (
    \ir parts/page.sql
    from (
        select * from cases c where
        \ir parts/among.sql
        order by c.opened_at desc, c.id desc limit %(walked)s
    ) c
    cross join lateral (select * from case_stats s where s.project_id = c.project_id and s.id = c.id offset 0) s
    where (%(environment)s::text is null or %(environment)s = any(s.environments))
    and (%(release)s::text is null or %(release)s = any(s.releases))
    and (%(text)s::text is null
        or
        \ir parts/of_words.sql
        )
    and
    \ir parts/counted.sql
    \ir parts/newest_first.sql
) c
\ir parts/merged.sql
order by c.opened_at desc, c.id desc
