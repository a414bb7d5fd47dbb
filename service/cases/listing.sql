-- part people --
-- The people of case `c` and of those that were merged into it (merged.sql). A person that several of them met counts
-- once, as far as so many people are told apart.
case when g.ids is null then users_affected else greatest(users_affected, (
    select count(*) from (
        select distinct u.user_id from case_users u
        where u.project_id = c.project_id and u.case_id = any(g.ids || c.id) limit 2000) d)) end

-- part merged --
-- What the cases that were merged into case `c` have counted.
left join lateral (
    select array_agg(m.id) as ids, sum(t.event_count)::bigint as events, min(t.first_seen_at) as first_at,
        max(t.last_seen_at) as last_at, min(coalesce(t.first_occurred_at, t.first_seen_at)) as first_occurred_at,
        max(coalesce(t.last_occurred_at, t.last_seen_at)) as last_occurred_at, bool_or(t.unmarked) as unmarked
    from cases m join case_stats t using (project_id, id)
    where m.project_id = c.project_id and m.merged_into = c.id
) g on true

-- list --
-- A page of cases that are filtered by nothing that an index of elements would have to find.
\include shown
from (
    \include page
    from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
    where
    \include among
    and
    \include counted
    \include newest_first
) c
\include merged
order by c.opened_at desc, c.id desc

-- part shown --
-- What a list shows of case `c` of a page, with what was merged into it.
select c.id, c.fingerprint, c.title, c.level, c.status, c.case_revision, c.unmarked or coalesce(g.unmarked, false),
    c.environment, c.release, c.event_count + coalesce(g.events, 0),
\include people
    , least(c.first_seen_at, g.first_at), greatest(c.last_seen_at, g.last_at), c.suppression_id,
    exists (
        select from leases l join claims k on k.project_id = l.project_id and k.id = l.claim_id
        where l.project_id = c.project_id and l.case_id = c.id and k.status = 'active'
            and k.lease_expires_at > (select service_seconds())), c.opened_at, c.merged_into,
    least(c.first_occurred_at, g.first_occurred_at), greatest(c.last_occurred_at, g.last_occurred_at),
    case when c.own_count is null then 'local' when c.own_count = 0 then 'provider_cloud' else 'both' end,
    coalesce(c.imported, false)

-- part page --
-- What is read of a case to show it in a list.
select c.project_id, c.id, c.fingerprint, s.title, s.level, c.status, c.case_revision, s.unmarked, s.environment,
    s.release, s.event_count, s.users_affected, s.first_seen_at, s.last_seen_at, c.suppression_id, c.opened_at,
    c.merged_into, coalesce(s.first_occurred_at, s.first_seen_at) as first_occurred_at,
    coalesce(s.last_occurred_at, s.last_seen_at) as last_occurred_at, s.own_count, c.imported

-- part among --
-- Cases of a status after a place.
c.project_id = %(project_id)s and (c.opened_at, c.id) < (%(at)s, %(id)s)
and
\include of_status

-- part of_status --
-- Cases of a status as it is shown; of any when it is null.
(%(status)s::text is null or replace(replace(c.status, 'overflow', 'open'), 'merged', 'ignored') = %(status)s)

-- part counted --
-- What the counters of a case have to tell: when it was last seen, and where its errors come from, with those of the
-- cases that were merged into it. Nothing where it is null.
\include seen_since
and (%(trust)s::text[] is null
    or 'customer_provider' = any(%(trust)s::text[]) and (
        \include by_dsn
    )
    or not (
        \include by_dsn
    )
    and ('imported' = any(%(trust)s::text[]) and (
            select i.imported from cases i where i.project_id = s.project_id and i.id = s.id)
        or 'synthetic' = any(%(trust)s::text[]) and (
            select i.imported from cases i where i.project_id = s.project_id and i.id = s.id) is null))

-- part by_dsn --
-- Whether some error of a case, or of one that was merged into it, came from neither an onboarding proof nor an import.
s.unmarked or exists (
    select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
    where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked)

-- part seen_since --
-- Whether a case was seen since a time. Nothing where it is null.
(%(since)s::bigint is null or s.last_seen_hour >= %(since)s / 3600 and s.last_seen_at >= %(since)s)

-- part newest_first --
-- The order of lists, and the length of a page.
order by c.opened_at desc, c.id desc limit %(limit)s

-- list_walked --
-- A page of cases, as far as it is found among the newest: what is frequent is. Each counter is looked up by its key: a
-- planner that took them all together would read all counters of the project.
\include shown
from (
    \include page
    from (
        select * from cases c where
        \include among
        order by c.opened_at desc, c.id desc limit %(walked)s
    ) c
    cross join lateral (select * from case_stats s where s.project_id = c.project_id and s.id = c.id offset 0) s
    where (%(environment)s::text is null or %(environment)s = any(s.environments))
    and (%(release)s::text is null or %(release)s = any(s.releases))
    and (%(text)s::text is null
        or
        \include has_words
        )
    and
    \include told
    and (%(person)s::text is null
        or
        \include affects
        )
    and
    \include counted
    \include newest_first
) c
\include merged
order by c.opened_at desc, c.id desc

-- part has_words --
-- Cases that have all words of a text.
case_words(project => s.project_id, title => s.title, message => s.message, culprit => s.culprit)
    @> case_words(project => %(project_id)s, title => %(text)s, message => '', culprit => null)

-- list_found --
-- A page of cases that are found by the index of elements: what is rare. What is found is put in order by an index that
-- has all that this takes; the rest is read of a page alone.
\include shown
from (
    \include page
    from (
        select * from cases c
        where c.project_id = %(project_id)s and c.id = any(array(
            select c.id from cases c where
            \include among
            and c.id = any(array(
                select s.id from case_stats s
                where (%(marks)s::text[] is null or case_marks(project => s.project_id,
                    environments => s.environments, releases => s.releases) @> %(marks)s::text[])
                and (%(text)s::text is null
                    or
                    \include has_words
                    )
                and
                \include told
                and (%(ids)s::text[] is null or s.project_id = %(project_id)s and s.id = any(%(ids)s::text[]))
                and (%(person)s::text is null or %(ids)s::text[] is not null
                    or
                    \include affects
                    )
                and
                \include counted
            ))
            \include newest_first
        ))
    ) c
    cross join lateral (select * from case_stats s where s.project_id = c.project_id and s.id = c.id offset 0) s
    \include newest_first
) c
\include merged
order by c.opened_at desc, c.id desc

-- part merged_value --
-- What case `c` has counted with what was merged into it (merged.sql): the value that an order goes by.
case %(order)s::text when 'errors' then c.event_count + g.events
    when 'last_seen' then greatest(c.last_seen_at, g.last_at)
    else
    \include people
    end

-- list_by_errors --
-- A page of cases by their errors, as far as it is found among the first of an index (of_walked).
with walked as materialized (
    select s.id, s.errors_rank as rank, s.event_count as value from case_stats s
    where s.project_id = %(project_id)s and (s.errors_rank, s.id) < (%(rank)s, %(rank_id)s)
    order by s.errors_rank desc, s.id desc limit %(walked)s
)
\include of_walked

-- list_by_people --
-- A page of cases by their people, as far as it is found among the first of an index (of_walked).
with walked as materialized (
    select s.id, s.people_rank as rank, s.users_affected as value from case_stats s
    where s.project_id = %(project_id)s and (s.people_rank, s.id) < (%(rank)s, %(rank_id)s)
    order by s.people_rank desc, s.id desc limit %(walked)s
)
\include of_walked

-- list_by_last_error --
-- A page of cases by their last error, as far as it is found among the first of an index (of_walked).
with walked as materialized (
    select s.id, s.last_seen_minute as rank, s.last_seen_at as value from case_stats s
    where s.project_id = %(project_id)s and (s.last_seen_minute, s.id) < (%(rank)s, %(rank_id)s)
    order by s.last_seen_minute desc, s.id desc limit %(walked)s
)
\include of_walked

-- part of_walked --
-- A page of the walked cases and of all that others were merged into. Ranks below `exact` are in the order of the list.
-- Of any other rank all cases have to be there before they can be put in order, so the last rank is left out. A case
-- with merged ones is shown where no unread case can come before it.
, edge as materialized (select count(*) < %(walked)s as all_read, min(rank) as rank from walked),
kept as materialized (
    select w.id, w.value from walked w, edge e where e.all_read or w.rank > e.rank or w.rank < %(exact)s
),
joined as materialized (
    select distinct m.merged_into as id from cases m where m.project_id = %(project_id)s and m.merged_into is not null
)
\include shown
from (
    \include page
    , o.value
    from (
        select v.id, v.value
        from (
            select k.id, k.value from kept k where k.id not in (select id from joined)
            union all
            select j.id, (
                select
                \include merged_value
                from (
                    select s.project_id, s.id, s.event_count, s.last_seen_at, s.users_affected
                    from case_stats s where s.project_id = %(project_id)s and s.id = j.id
                ) c
                \include merged
            ) as value
            from joined j
        ) v
        where (v.value, v.id) < (%(at)s, %(id)s)
        and ((select all_read from edge)
            or (v.value, v.id) >= (select k.value, k.id from kept k order by k.value, k.id limit 1))
        order by v.value desc, v.id desc offset 0
    ) o
    cross join lateral (select * from cases c where c.project_id = %(project_id)s and c.id = o.id offset 0) c
    cross join lateral (select * from case_stats s where s.project_id = %(project_id)s and s.id = o.id offset 0) s
    where
    \include of_status
    and (%(environment)s::text is null or %(environment)s = any(s.environments))
    and (%(release)s::text is null or %(release)s = any(s.releases))
    and (%(text)s::text is null
        or
        \include has_words
        )
    and
    \include told
    and (%(person)s::text is null
        or
        \include affects
        )
    and
    \include counted
    order by o.value desc, o.id desc limit %(limit)s
) c
\include merged
order by c.value desc, c.id desc

-- list_ordered --
-- A page of cases in the order of what they have counted, with what was merged into them: the time of the last error,
-- errors, or people. It is read where the first of an index do not fill the page. So the counters of all cases of
-- the project are put in order, and the rest is read of a page alone. What depends on merged cases asks by a subquery
-- that is run once: a planner cannot tell how many there are, and a join of them might compare each case with each.
\include shown
from (
    \include page
    , p.value
    from (
        select v.id, v.value from (
            select c.id, c.value from (
                select o.id, case
                    when o.id in (select m.merged_into from cases m
                        where m.project_id = %(project_id)s and m.merged_into is not null)
                    then (
                        select
                        \include merged_value
                        from (select o.*) c
                        \include merged
                    )
                    when %(order)s::text = 'errors' then o.event_count
                    when %(order)s::text = 'last_seen' then o.last_seen_at
                    else o.users_affected end as value
                from (
                    select c.project_id, c.id, s.event_count, s.last_seen_at, s.users_affected
                    from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
                    where c.project_id = %(project_id)s and s.project_id = %(project_id)s
                    and
                    \include of_status
                    and (%(environment)s::text is null or %(environment)s = any(s.environments))
                    and (%(release)s::text is null or %(release)s = any(s.releases))
                    and (%(ids)s::text[] is null or s.id = any(%(ids)s::text[]))
                    and
                    \include told
                    and (%(person)s::text is null
                        or
                        \include affects
                        )
                    and
                    \include seen_since
                    and (%(trust)s::text[] is null
                        or 'customer_provider' = any(%(trust)s::text[]) and (
                            \include by_dsn_of_all
                        )
                        or not (
                            \include by_dsn_of_all
                        )
                        and ('imported' = any(%(trust)s::text[]) and c.imported
                            or 'synthetic' = any(%(trust)s::text[]) and c.imported is null))
                ) o
                offset 0
            ) c
            where (c.value, c.id) < (%(at)s, %(id)s)
            order by c.value desc, c.id desc offset 0
        ) v
        where %(text)s::text is null or (
            select
            \include has_words
            from case_stats s where s.project_id = %(project_id)s and s.id = v.id)
        order by v.value desc, v.id desc limit %(limit)s
    ) p
    join cases c on c.project_id = %(project_id)s and c.id = p.id
    cross join lateral (select * from case_stats s where s.project_id = c.project_id and s.id = c.id offset 0) s
) c
\include merged
order by c.value desc, c.id desc

-- part by_dsn_of_all --
-- The same as by_dsn, for all cases of a project.
s.unmarked or s.id in (
    select m.merged_into from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
    where m.project_id = %(project_id)s and m.merged_into is not null and t.unmarked)

-- of_words --
-- Cases that have all words of a text, a tag and a path, and affected a person, if they are not many.
select s.id from case_stats s where s.project_id = %(project_id)s
and (%(text)s::text is null
    or
    \include has_words
    )
and
\include told
and (%(person)s::text is null or s.id = any(array(
    \include met
    )))
limit %(most)s

-- of_person --
-- Cases that affected a person, up to a bound.
\include met
limit %(most)s

-- part met --
-- The cases whose errors name a person, by whichever name of theirs.
select distinct u.case_id from case_users u
where u.project_id = %(project_id)s and u.user_id = any(array(
    \include names
    ))

-- part affects --
-- Whether case `s` has an error that names a person, looked up case by case.
exists (select from case_users u where u.project_id = s.project_id and u.case_id = s.id and u.user_id = any(array(
    \include names
    )) offset 0)

-- part names --
-- The names of a person.
select %(person)s::text
union
select n.name from person_names n
where n.project_id = %(project_id)s and n.person = coalesce((
    select m.person from person_names m
    where m.project_id = %(project_id)s and m.name = %(person)s), %(person)s)

-- part told --
-- What the first error of case `s` tells: a tag, and the beginning of its culprit. Nothing where it is null.
(%(tag)s::text is null or case_tags(project => s.project_id, tags => s.tags) @> array[%(project_id)s || ' ' || %(tag)s])
and (%(path)s::text is null
    or s.project_id = %(project_id)s and left(s.culprit, 200) collate "C" >= %(path)s
        and left(s.culprit, 200) collate "C" < %(path)s || chr(1114111))

-- list_one --
-- One case as the list of cases shows it.
\include shown
from (
    \include page
    from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
    where c.project_id = %(project_id)s and c.id = %(id)s
) c
\include merged

-- count_among --
-- How many cases of a status there are after a place, up to a bound.
select count(*) from (
    select from cases c where
    \include among
    limit %(most)s
) n
