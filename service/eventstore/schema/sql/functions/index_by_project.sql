-- Trigger of log_index: the positions that a statement gives are those of the projects of their events as well.
create or replace function index_by_project() returns trigger language plpgsql
set search_path = public, pg_temp as $body$
begin
    insert into project_positions (project_id, position, seq)
    select e.project_id, n.position, n.seq from numbered n join events e on e.seq = n.seq;
    return null;
end
$body$;
