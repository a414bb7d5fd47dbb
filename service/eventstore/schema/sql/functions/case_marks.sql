-- What the lists of cases are filtered by beside columns, as the elements of an index: each environment and release
-- of a case with its project before it, so that an element leads to the cases of one project only.
create or replace function case_marks(project text, environments text[], releases text[]) returns text[]
language sql immutable parallel safe as $body$
    select array(
        select project || ' environment ' || e from unnest(environments) e
        union all select project || ' release ' || r from unnest(releases) r)
$body$;
