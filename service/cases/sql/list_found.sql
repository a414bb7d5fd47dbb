-- A page of cases that are found by the index of elements: what is rare. What is found is put in order by an index that
-- has all that this takes; the rest is read of a page alone.
\ir parts/shown.sql
from (
    \ir parts/page.sql
    from (
        select * from cases c
        where c.project_id = %(project_id)s and c.id = any(array(
            select c.id from cases c where
            \ir parts/among.sql
            and c.id = any(array(
                select s.id from case_stats s
                where (%(marks)s::text[] is null or case_marks(project => s.project_id,
                    environments => s.environments, releases => s.releases) @> %(marks)s::text[])
                and (%(text)s::text is null
                    or
                    \ir parts/of_words.sql
                    )
                and
                \ir parts/counted.sql
            ))
            \ir parts/newest_first.sql
        ))
    ) c
    cross join lateral (select * from case_stats s where s.project_id = c.project_id and s.id = c.id offset 0) s
    \ir parts/newest_first.sql
) c
\ir parts/merged.sql
order by c.opened_at desc, c.id desc
