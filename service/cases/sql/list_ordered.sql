-- A page of cases in the order of what they have counted, with what was merged into them: the time of the last error,
-- errors, or people. No index has this order, which each error would have to write to. So the counters of all cases of
-- the project are put in order, and the rest is read of a page alone. What depends on merged cases asks by a subquery
-- that is run once: a planner cannot tell how many there are, and a join of them might compare each case with each.
\ir parts/shown.sql
from (
    \ir parts/page.sql
    , p.value
    from (
        select v.id, v.value from (
            select c.id, c.value from (
                select o.id, case
                    when o.id in (select m.merged_into from cases m
                        where m.project_id = %(project_id)s and m.merged_into is not null)
                    then (
                        select case %(order)s::text when 'errors' then c.event_count + g.events
                            when 'last_seen' then greatest(c.last_seen_at, g.last_at)
                            else
                            \ir parts/people.sql
                            end
                        from (select o.*) c
                        \ir parts/merged.sql
                    )
                    when %(order)s::text = 'errors' then o.event_count
                    when %(order)s::text = 'last_seen' then o.last_seen_at
                    else o.users_affected end as value
                from (
                    select c.project_id, c.id, s.event_count, s.last_seen_at, s.users_affected
                    from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
                    where c.project_id = %(project_id)s and s.project_id = %(project_id)s
                    and
                    \ir parts/of_status.sql
                    and (%(environment)s::text is null or %(environment)s = any(s.environments))
                    and (%(release)s::text is null or %(release)s = any(s.releases))
                    and (%(ids)s::text[] is null or s.id = any(%(ids)s::text[]))
                    and
                    \ir parts/seen_since.sql
                    and (%(trust)s::text is null or (%(trust)s <> 'synthetic') = (s.unmarked or s.id in (
                        select m.merged_into
                        from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
                        where m.project_id = %(project_id)s and m.merged_into is not null and t.unmarked)))
                ) o
                offset 0
            ) c
            where (c.value, c.id) < (%(at)s, %(id)s)
            order by c.value desc, c.id desc offset 0
        ) v
        where %(text)s::text is null or (
            select
            \ir parts/of_words.sql
            from case_stats s where s.project_id = %(project_id)s and s.id = v.id)
        order by v.value desc, v.id desc limit %(limit)s
    ) p
    join cases c on c.project_id = %(project_id)s and c.id = p.id
    cross join lateral (select * from case_stats s where s.project_id = c.project_id and s.id = c.id offset 0) s
) c
\ir parts/merged.sql
order by c.value desc, c.id desc
