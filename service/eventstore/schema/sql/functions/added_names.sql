-- Appends the names that are new, up to a hundred in all: who sends a new environment or release with every event does
-- not make the row grow for ever. A function for the reason that `added_kinds` is one.
create or replace function added_names(before text[], more text[]) returns text[] language sql immutable as $body$
    select (before || array(select v from unnest(more) v where v <> all (before)))[1:100]
$body$;
