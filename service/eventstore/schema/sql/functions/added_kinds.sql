-- Sums two objects of counts by kind. A function, because the subquery it stands for would be set up with every flush,
-- and hardly any has something that was scrubbed.
create or replace function added_kinds(before jsonb, more jsonb) returns jsonb language sql immutable as $body$
    select jsonb_object_agg(s.kind, s.total) from (
        select k.kind, sum(k.count::bigint) as total from (
            select * from jsonb_each_text(before) union all select * from jsonb_each_text(more)) k(kind, count)
        group by k.kind) s
$body$;
