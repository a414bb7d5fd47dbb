-- What the list of cases is searched by, as the elements of an index: each word of what a case is called after, in
-- lower case, with its project before it, so that an element leads to the cases of one project only.
-- It costs as much as reading hundreds of rows: lists prefer its index to working it out for each.
create or replace function case_words(project text, title text, message text, culprit text) returns text[]
language sql immutable parallel safe cost 2000 as $body$
    select array(
        select distinct project || ' ' || w
        from regexp_split_to_table(
            lower(left(title || ' ' || message || ' ' || coalesce(culprit, ''), 1000)), '[\s!-/:-@\[-`{-~]+') w
        where w <> '')
$body$;
