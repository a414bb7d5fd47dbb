-- Takes the names of people who are being erased apart, and what products told of them, unless that is done: from now on
-- each name is somebody new's. The caller holds the lock of the project's people (ingest_people).
create or replace function cut_links(project text) returns void language plpgsql as $body$
begin
    if not exists (select from erasure_names e where e.project_id = project and not e.links_cut) then
        return;
    end if;
    with cut as (
        update erasure_names e set links_cut = true where e.project_id = project and not e.links_cut returning e.names
    ), gone as (
        select w.name from cut c cross join lateral jsonb_array_elements_text(c.names) as w(name)
    ), names as (
        delete from person_names n using gone g where n.project_id = project and n.name = g.name
    )
    delete from telemetry_people p using gone g where p.project_id = project and p.id = g.name;
end
$body$;
