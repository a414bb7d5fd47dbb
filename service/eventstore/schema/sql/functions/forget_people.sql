-- Forgets some of the names of a project's people, those after one: each that was told of before `until` alone, and has no
-- record any more. Whoever loses the last of the other names has none, and goes when nothing else is left. Answers the
-- last name looked at, null without any. Flushes that tell of people wait meanwhile.
create or replace function forget_people(project text, until bigint, after text, most bigint) returns text
language plpgsql as $body$
declare
    looked text[];
    gone   text[];
begin
    perform pg_advisory_xact_lock(805, hashtext(project));
    select array_agg(x.name order by x.name) into looked
    from (
        (select n.name from person_names n where n.project_id = project and n.name > after order by 1 limit most)
        union
        (select p.id from telemetry_people p where p.project_id = project and p.id > after order by 1 limit most)
        order by 1 limit most
    ) x;
    gone := array(
        select w.name from unnest(looked) as w(name)
        where not exists (
                select from person_names n where n.project_id = project and n.name = w.name and n.linked_at >= until)
            and not exists (
                select from telemetry_people p where p.project_id = project and p.id = w.name and p.told_at >= until)
            and not exists (
                select from analytics_events e where e.project_id = project and e.distinct_id = w.name)
            and not exists (select from log_events e where e.project_id = project and e.user_id = w.name));
    delete from person_names n where n.project_id = project and n.name = any(gone) and n.person <> n.name;
    delete from telemetry_people p
    where p.project_id = project and p.id = any(gone) and not exists (
        select from person_names n where n.project_id = project and n.person = p.id and n.name <> p.id);
    delete from person_names n
    where n.project_id = project and n.name = any(gone) and n.person = n.name and not exists (
        select from telemetry_people p where p.project_id = project and p.id = n.name);
    return looked[cardinality(looked)];
end
$body$;
