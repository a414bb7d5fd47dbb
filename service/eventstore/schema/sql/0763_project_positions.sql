-- compatible: yes
-- The positions of each project's events. A page of a project reads these, and not the log of the whole installation.
create table project_positions (
    project_id text   collate "C" not null,
    position   bigint not null,
    seq        bigint not null,
    primary key (project_id, position)
);

-- Whoever numbers events fills it, the release before too. Its text stands in functions/ as well, and counts from here
-- on: what is numbered from now on has its row, what was numbered before gets it in the next file.
create function index_by_project() returns trigger language plpgsql
set search_path = public, pg_temp as $body$
begin
    insert into project_positions (project_id, position, seq)
    select e.project_id, n.position, n.seq from numbered n join events e on e.seq = n.seq;
    return null;
end
$body$;
create trigger log_index_by_project after insert on log_index
    referencing new table as numbered for each statement execute function index_by_project();
create trigger project_positions_immutable before update or delete on project_positions
    for each row execute function log_rows_are_immutable();
create trigger project_positions_not_truncated before truncate on project_positions
    for each statement execute function log_rows_are_immutable();
alter table log_index enable always trigger log_index_by_project;
alter table project_positions enable always trigger project_positions_immutable;
alter table project_positions enable always trigger project_positions_not_truncated;
