-- A page of cases that are filtered by nothing that an index of elements would have to find.
\ir parts/shown.sql
from (
    \ir parts/page.sql
    from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
    where
    \ir parts/among.sql
    and
    \ir parts/counted.sql
    \ir parts/newest_first.sql
) c
\ir parts/merged.sql
order by c.opened_at desc, c.id desc
