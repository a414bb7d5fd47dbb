-- Counts the names of a flush's analytics events and the keys of their properties, by project and day. `new_usage` has an
-- element of sums for the whole flush: `projects` in order, with the rows of each and the values whose keys are too long
-- to be counted; `names`, each with the place of its project and its rows; `keys`, each with the place of its name, its
-- rows and the JSON types of its values, as bits. The release before sends none: then the rows themselves are summed.
--
-- The rows of the projects' days are locked first, in order: whoever counts events of a project waits for its day, so
-- those below it need no order, nobody else adds any meanwhile, and the limits hold exactly. What all flushes do are
-- plain updates; only who finds less than it looked for adds rows. Each row is found by its whole key in a subquery: a
-- join would look through the day of all projects as long as the table is small, and a session keeps its plan.
create or replace function ingest_names(seconds bigint, new_usage json, new_analytics json) returns void
language plpgsql as $body$
declare
    midnight   constant bigint := seconds - seconds % 86400;
    most_names constant bigint := 1000;  -- these two: see service/analytics/metadata/types.py
    most_keys  constant bigint := 5000;
    new_days   text[];
    met        bigint;
    s          record;
begin
    select u.* into s from json_to_recordset(new_usage) as u(projects text[], project_rows bigint[], long_keys bigint[],
        name_places int[], names text[], name_rows bigint[], key_places int[], keys text[], key_rows bigint[],
        key_types smallint[])
    where u.projects is not null;
    if not found then
        select u.* into s from json_to_record(summed_names(new_analytics => new_analytics)) as u(projects text[],
            project_rows bigint[], long_keys bigint[], name_places int[], names text[], name_rows bigint[],
            key_places int[], keys text[], key_rows bigint[], key_types smallint[]);
    end if;

    -- xmax is 0 only in a row that was inserted.
    with days as (
        insert into event_days as t (project_id, day, names, keys, other_rows, other_values, whole)
        select p.project_id, midnight, 0, 0, 0, p.long_keys, true
        from unnest(s.projects, s.long_keys) as p(project_id, long_keys)
        on conflict (project_id, day) do update set other_values = t.other_values + excluded.other_values
        returning t.project_id, t.xmax = 0 as is_new
    )
    select array_agg(d.project_id) filter (where d.is_new) into new_days from days d;
    if new_days is not null then
        -- A day that has more events than these by now was not counted from its beginning.
        update event_days t set whole = p.row_count = (
            select count(*) from (
                select from analytics_events e
                where e.project_id = t.project_id and e.received_at >= midnight and e.received_at < midnight + 86400
                limit p.row_count + 1
            ) c)
        from unnest(s.projects, s.project_rows) as p(project_id, row_count)
        where t.project_id = p.project_id and t.day = midnight and t.project_id = any(new_days);
    end if;

    update event_name_days t set row_count = t.row_count + n.row_count,
        first_at = least(t.first_at, seconds), last_at = greatest(t.last_at, seconds)
    from (
        select n.row_count, (
            select r.ctid from event_name_days r
            where r.project_id = s.projects[n.place] and r.day = midnight and r.event = n.event) as at
        from unnest(s.name_places, s.names, s.name_rows) as n(place, event, row_count)
    ) n
    where t.ctid = n.at;
    get diagnostics met = row_count;
    if met < cardinality(s.names) then
        with missing as (
            select s.projects[n.place] as project_id, n.event, n.row_count, most_names - (
                    select d.names from event_days d where d.project_id = s.projects[n.place] and d.day = midnight
                ) >= row_number() over (partition by n.place order by n.event collate "C") as fits
            from unnest(s.name_places, s.names, s.name_rows) as n(place, event, row_count)
            where (
                select r.event from event_name_days r
                where r.project_id = s.projects[n.place] and r.day = midnight and r.event = n.event) is null
        ), added as (
            insert into event_name_days (project_id, day, event, row_count, first_at, last_at)
            select m.project_id, midnight, m.event, m.row_count, seconds, seconds from missing m where m.fits
        )
        update event_days t set names = t.names + m.names, other_rows = t.other_rows + m.other_rows
        from (
            select m.project_id, count(*) filter (where m.fits) as names,
                coalesce(sum(m.row_count) filter (where not m.fits), 0) as other_rows
            from missing m group by m.project_id
        ) m
        where t.project_id = m.project_id and t.day = midnight;
    end if;

    update event_key_days t set row_count = t.row_count + k.row_count, types = t.types | k.types
    from (
        select k.row_count, k.types, (
            select r.ctid from event_key_days r
            where r.project_id = s.projects[s.name_places[k.place]] and r.day = midnight
                and r.event = s.names[k.place] and r.key = k.key) as at
        from unnest(s.key_places, s.keys, s.key_rows, s.key_types) as k(place, key, row_count, types)
    ) k
    where t.ctid = k.at;
    get diagnostics met = row_count;
    if met < cardinality(s.keys) then
        with missing as (
            select s.projects[s.name_places[k.place]] as project_id, s.names[k.place] as event, k.key, k.row_count,
                k.types, most_keys - (
                    select d.keys from event_days d
                    where d.project_id = s.projects[s.name_places[k.place]] and d.day = midnight
                ) >= row_number() over (
                    partition by s.name_places[k.place] order by s.names[k.place] collate "C", k.key collate "C"
                ) as fits
            from unnest(s.key_places, s.keys, s.key_rows, s.key_types) as k(place, key, row_count, types)
            where (
                select r.key from event_key_days r
                where r.project_id = s.projects[s.name_places[k.place]] and r.day = midnight
                    and r.event = s.names[k.place] and r.key = k.key) is null
        ), added as (
            insert into event_key_days (project_id, day, event, key, row_count, types)
            select m.project_id, midnight, m.event, m.key, m.row_count, m.types from missing m where m.fits
        )
        update event_days t set keys = t.keys + m.keys, other_values = t.other_values + m.other_values
        from (
            select m.project_id, count(*) filter (where m.fits) as keys,
                coalesce(sum(m.row_count) filter (where not m.fits), 0) as other_values
            from missing m group by m.project_id
        ) m
        where t.project_id = m.project_id and t.day = midnight;
    end if;
end
$body$;
