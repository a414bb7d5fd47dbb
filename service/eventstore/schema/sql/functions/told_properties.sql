-- The properties of a person after a product has told some: those told `once` only where there is none, and at most 64.
-- Where there are more, the ones that were there stay. Each of them is short: see service/ingest/queue/people.py.
create or replace function told_properties(before jsonb, once jsonb, told jsonb) returns jsonb
language sql immutable as $body$
    select coalesce(jsonb_object_agg(p.key, p.value), '{}')
    from (
        select m.key, m.value
        from jsonb_each(coalesce(once, '{}') || coalesce(before, '{}') || coalesce(told, '{}')) m
        order by coalesce(before, '{}') ? m.key desc, m.key collate "C"
        limit 64
    ) p
$body$;
