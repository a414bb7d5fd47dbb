-- Drops what a killed rebuild of a read model has left: the table that it was making, and the one that it had replaced.
-- It works with the rights of the owner of the tables, and no name but these two can be reached by it. Who calls it holds
-- the lock of the rebuild.
create or replace function drop_rebuild_halves(read_model text) returns void
language plpgsql security definer
set search_path = public, pg_temp
as $body$
begin
    execute format('drop table if exists %I, %I', read_model || '_rebuild', read_model || '_old');
end
$body$;
