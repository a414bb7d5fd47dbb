-- One case as the list of cases shows it.
\ir parts/shown.sql
from (
    \ir parts/page.sql
    from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
    where c.project_id = %(project_id)s and c.id = %(id)s
) c
\ir parts/merged.sql
