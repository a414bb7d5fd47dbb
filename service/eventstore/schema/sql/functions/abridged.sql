-- Of an object the named members. Long values are read as `true`: whether a value is empty is all that counts, and one
-- may have many kilobytes.
create or replace function abridged(object jsonb, names text[]) returns jsonb language sql immutable as $body$
    select coalesce(
        jsonb_object_agg(m.key, case when octet_length(m.value::text) > 200 then 'true'::jsonb else m.value end), '{}')
    from jsonb_each(object) m where m.key = any(names)
$body$;
