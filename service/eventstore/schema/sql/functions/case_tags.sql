-- What the lists of cases are filtered by beside columns: each tag of the first error of a case with its project before
-- it, so that an element leads to the cases of one project only.
create or replace function case_tags(project text, tags text[]) returns text[]
language sql immutable parallel safe as $body$
    select array(select project || ' ' || t from unnest(tags) t)
$body$;
