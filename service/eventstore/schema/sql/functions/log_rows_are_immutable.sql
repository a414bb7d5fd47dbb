-- Trigger of the tables of the tree: what outsiders have been shown is never changed.
create or replace function log_rows_are_immutable() returns trigger language plpgsql
set search_path = public, pg_temp as $body$
begin
    raise exception 'the log is immutable' using errcode = 'restrict_violation';
end
$body$;
