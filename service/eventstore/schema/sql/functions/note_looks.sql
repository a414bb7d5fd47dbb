-- Keeps looks for work and the decisions that are new in them (G-137), in one statement; answers how many decisions it
-- made. `projects` and `gates` name the projects and their lock numbers; `looks` are arrays of one element each look:
-- project, automation, moment (epoch seconds), kind of look, kind of caller; `decisions` an array of whole rows.
--
-- Under the gates: from the fence on, nothing is written for a project that is being deleted. They are tried and never
-- waited for; what this drops the next look finds again. Who is active is read by a later query than the locks, which
-- sees what was committed before it began (the function is volatile).
create or replace function note_looks(
    projects text[], gates bigint[], look_projects text[], look_automations text[], look_moments bigint[],
    look_kinds text[], look_callers text[], decisions jsonb
) returns bigint language plpgsql as $body$
declare
    held    text[];
    active  text[];
    made    bigint := 0;
begin
    select array_agg(g.id) into held from unnest(projects, gates) g(id, lock)
    where pg_try_advisory_xact_lock_shared(g.lock);
    select array_agg(p.project_id) into active from projects p
    where (p.project_id, p.id) in (select n, n from unnest(held) n) and p.status = 'active';
    if active is null then
        return 0;
    end if;
    insert into automation_looks (project_id, automation_id, hour, look, asked_by, seconds)
    select n.project_id, n.automation_id, n.at / 3600 * 3600, n.look, n.asked_by,
        array_agg(distinct mod(n.at, 3600)::smallint order by mod(n.at, 3600)::smallint)
    from unnest(look_projects, look_automations, look_moments, look_kinds, look_callers)
        n(project_id, automation_id, at, look, asked_by)
    where n.project_id = any(active)
    group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
    on conflict (project_id, automation_id, hour, look, asked_by)
    do update set seconds = array(
        select distinct s from unnest(automation_looks.seconds || excluded.seconds) s order by s)
    where not automation_looks.seconds @> excluded.seconds;
    if decisions is null then
        return 0;
    end if;
    -- In the order of their keys, so that two processes cannot deadlock. No joins: they would be planned for a young
    -- database, in which the planner takes every table for an empty one.
    insert into automation_decisions (project_id, id, automation_id, case_id, case_revision, stage, look, asked_by,
        code, outcome, receipt_id, policy_sha256, decided_at, inputs, thresholds, checks, age_seconds, material)
    select project_id, id, automation_id, case_id, case_revision, stage, look, asked_by, code, outcome, receipt_id,
        policy_sha256, decided_at, inputs, thresholds, checks, age_seconds, material
    from jsonb_populate_recordset(null::automation_decisions, decisions)
    where project_id = any(active)
    order by project_id, id on conflict (project_id, id) do nothing;
    get diagnostics made = row_count;
    return made;
end
$body$;
