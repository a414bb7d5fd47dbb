-- What a flush says of people, in its order. `new_usage` has an element with `people`: each names somebody, says how
-- (identify, alias or merge joins an `other` name with the name, set only tells), and may tell properties.
--
-- Flushes of a project do this one after the other, so what is looked up stands until the end. The names of two people
-- become one's unless both are identified, for which a merge alone is enough, or have more than `most_names` together.
-- An identified person keeps the name that it is called by. Somebody who is being erased is joined with nobody.
create or replace function ingest_people(seconds bigint, new_usage json) returns void language plpgsql as $body$
declare
    most_names constant bigint := 1000;
    told       json;
    t          record;
    known      record;
    mine       text;
    others     text;
    gone       text;
    i_am       boolean;
    other_is   boolean;
begin
    select u.people into told from json_to_recordset(new_usage) as u(people json) where u.people is not null;
    perform pg_advisory_xact_lock(805, l.number)
    from (
        select distinct hashtext(p.project_id) as number from json_to_recordset(told) as p(project_id text) order by 1
    ) l;
    perform cut_links(project => x.project_id)
    from (select distinct p.project_id from json_to_recordset(told) as p(project_id text)) x;
    for t in
        select p.* from json_to_recordset(told) as p(project_id text, name text, kind text, other text, set jsonb,
            set_once jsonb)
    loop
        mine := coalesce((
            select n.person from person_names n where n.project_id = t.project_id and n.name = t.name), t.name);
        if t.other is not null then
            others := coalesce((
                select n.person from person_names n where n.project_id = t.project_id and n.name = t.other), t.other);
            i_am := t.kind = 'identify' or exists (
                select from telemetry_people p where p.project_id = t.project_id and p.id = mine and p.identified);
            other_is := exists (
                select from telemetry_people p where p.project_id = t.project_id and p.id = others and p.identified);
            if mine = others then
                null;
            elsif i_am and other_is and t.kind <> 'merge' or most_names < (
                select sum(greatest(1, (
                    select count(*) from person_names n where n.project_id = t.project_id and n.person = x.person)))
                from unnest(array[mine, others]) as x(person)
            ) then
                insert into telemetry_people as p (project_id, id, identified, properties, refused, told_at)
                values (t.project_id, mine, i_am, '{}', 1, seconds)
                on conflict (project_id, id) do update set
                    identified = p.identified or i_am, refused = p.refused + 1, told_at = seconds;
                t.kind := 'set';
            else
                gone := case when other_is and not i_am then mine else others end;
                mine := case when other_is and not i_am then others else mine end;
                insert into person_names (project_id, name, person, linked_at)
                values (t.project_id, mine, mine, seconds), (t.project_id, gone, mine, seconds)
                on conflict (project_id, name) do nothing;
                update person_names n set person = mine where n.project_id = t.project_id and n.person = gone;
                delete from telemetry_people p where p.project_id = t.project_id and p.id = gone
                returning p.properties, p.refused into known;
                if found then
                    insert into telemetry_people as p (project_id, id, identified, properties, refused, told_at)
                    values (t.project_id, mine, true, known.properties, known.refused, seconds)
                    on conflict (project_id, id) do update set
                        properties = told_properties(before => p.properties, once => known.properties, told => null),
                        refused = p.refused + known.refused;
                end if;
            end if;
        end if;
        -- Many events tell the same again: then nothing is written, but once a day.
        select p.identified, p.properties, p.told_at,
            told_properties(before => p.properties, once => t.set_once, told => t.set) as after into known
        from telemetry_people p where p.project_id = t.project_id and p.id = mine;
        if not found then
            insert into telemetry_people (project_id, id, identified, properties, refused, told_at)
            values (t.project_id, mine, t.kind <> 'set',
                told_properties(before => null, once => t.set_once, told => t.set), 0, seconds);
        elsif known.after <> known.properties or known.told_at < seconds - seconds % 86400
            or t.kind <> 'set' and not known.identified
        then
            update telemetry_people p set properties = known.after, told_at = greatest(p.told_at, seconds),
                identified = p.identified or t.kind <> 'set'
            where p.project_id = t.project_id and p.id = mine;
        end if;
    end loop;
end
$body$;
