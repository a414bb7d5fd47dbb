-- What a flusher sums for ingest_names, worked out from the rows themselves: for the release before, which sums nothing.
-- A key longer than 160 characters is not counted; see service/analytics/metadata/types.py for the bits of types.
create or replace function summed_names(new_analytics json) returns json language sql stable as $body$
    with sent as (
        select r.project_id collate "C" as project_id, r.event collate "C" as event, r.properties
        from json_to_recordset(new_analytics) as r(project_id text, event text, properties jsonb)
    ), names as (
        select s.project_id, s.event, count(*) as row_count, row_number() over (order by s.project_id, s.event) as place,
            dense_rank() over (order by s.project_id) as project
        from sent s group by 1, 2
    ), keys as (
        select s.project_id, s.event, k.key, count(*) as row_count, bit_or(case jsonb_typeof(k.value)
            when 'array' then 1 when 'boolean' then 2 when 'null' then 4 when 'number' then 8 when 'object' then 16
            else 32 end) as types, length(k.key) <= 160 as fits
        from sent s cross join lateral jsonb_each(s.properties) k group by 1, 2, 3
    ), projects as (
        select n.project_id, sum(n.row_count) as row_count, coalesce((
            select sum(k.row_count) from keys k where k.project_id = n.project_id and not k.fits), 0) as long_keys
        from names n group by 1
    )
    select json_build_object(
        'projects', (select json_agg(p.project_id order by p.project_id) from projects p),
        'project_rows', (select json_agg(p.row_count order by p.project_id) from projects p),
        'long_keys', (select json_agg(p.long_keys order by p.project_id) from projects p),
        'name_places', (select json_agg(n.project order by n.place) from names n),
        'names', (select json_agg(n.event order by n.place) from names n),
        'name_rows', (select json_agg(n.row_count order by n.place) from names n),
        'key_places', coalesce(k.places, '[]'), 'keys', coalesce(k.keys, '[]'),
        'key_rows', coalesce(k.row_counts, '[]'), 'key_types', coalesce(k.types, '[]'))
    from (
        select json_agg(n.place order by n.place, k.key collate "C") as places,
            json_agg(k.key order by n.place, k.key collate "C") as keys,
            json_agg(k.row_count order by n.place, k.key collate "C") as row_counts,
            json_agg(k.types order by n.place, k.key collate "C") as types
        from keys k join names n using (project_id, event) where k.fits
    ) k
$body$;
