-- compatible: yes
-- Names of people whose person the copy of telemetry does not know yet (G-200). Without a copy there are none. Whose they
-- are now is in person_names: nobody's, where a name is not there any more.
create table changed_names (
    project_id text   collate "C" not null,
    id         bigint generated always as identity,
    name       text   collate "C" not null,
    primary key (project_id, id)
);

create function note_changed_names() returns trigger language plpgsql
set search_path = public, pg_temp as $body$
begin
    if exists (select from telemetry_copies) then
        insert into changed_names (project_id, name) select c.project_id, c.name from changed c;
    end if;
    return null;
end
$body$;

create trigger person_names_added after insert on person_names
    referencing new table as changed for each statement execute function note_changed_names();
create trigger person_names_moved after update on person_names
    referencing new table as changed for each statement execute function note_changed_names();
create trigger person_names_taken after delete on person_names
    referencing old table as changed for each statement execute function note_changed_names();

insert into changed_names (project_id, name)
select n.project_id, n.name from person_names n where exists (select from telemetry_copies);
