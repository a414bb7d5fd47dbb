-- How many people of a project reached each step of an ordered funnel within a period, `since` included and `until`
-- not: element i counts those of whom events 1 to i came in this order, under whichever of their names. Events
-- of one second count as in order, for nothing tells more. Null when the period holds more than `most_rows` such events,
-- of which none is left out. With a `reach`, an event counts by its own time, and may be received so many seconds after
-- the period. Without one, it counts by its receipt (G-193).
--
-- One person's events follow one another, so that one pass is enough: whoever is at step n moves on at the first event
-- of step n + 1, and no other choice of events leads further.
--
-- Planned anew for each call: a plan for any number of rows, which a session would keep from its sixth call on, takes
-- `most_rows` for few and reads all events of the project in the order of its people.
create or replace function funnel_by_time(
    project text, steps text[], since bigint, until bigint, most_rows bigint, reach bigint
) returns bigint[] language plpgsql stable
set plan_cache_mode = force_custom_plan
as $body$
declare
    reached  bigint[] := array_fill(0::bigint, array[cardinality(steps)]);
    person   text;
    place    integer := 0;
    looked   bigint := 0;
    linked   constant boolean := exists (select from person_names n where n.project_id = project);
    seen     record;
begin
    for seen in
        select case when linked then coalesce(n.person, e.distinct_id) else e.distinct_id end as name,
            array_position(steps, e.event) as step
        from analytics_events e
        left join person_names n on n.project_id = e.project_id and n.name = e.distinct_id
        where e.project_id = project and e.event = any(steps)
            and e.received_at >= since and e.received_at < until + reach and (reach = 0
                or coalesce(e.occurred_at, e.received_at) >= since and coalesce(e.occurred_at, e.received_at) < until)
        order by 1, case when reach = 0 then e.received_at else coalesce(e.occurred_at, e.received_at) end, step limit most_rows + 1
    loop
        looked := looked + 1;
        if seen.name is distinct from person then
            person := seen.name;
            place := 0;
        end if;
        if seen.step = place + 1 then
            place := place + 1;
            reached[place] := reached[place] + 1;
        end if;
    end loop;
    return case when looked > most_rows then null else reached end;
end
$body$;
