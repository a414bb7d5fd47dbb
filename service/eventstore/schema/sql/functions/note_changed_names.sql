-- Trigger of person_names: while there is a copy of telemetry, it has to learn whose names these are now (G-200).
create or replace function note_changed_names() returns trigger language plpgsql
set search_path = public, pg_temp as $body$
begin
    if exists (select from telemetry_copies) then
        insert into changed_names (project_id, name) select c.project_id, c.name from changed c;
    end if;
    return null;
end
$body$;
