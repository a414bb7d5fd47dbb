-- compatible: yes
-- What callers' own queries read, and nothing else: three views of the records of one project, the one that the setting
-- service.project_id names. Without the setting they show nothing. Texts of errors are no part of them. The deploys
-- come by a function, as `owned_projects` does (0530): a view that named a read model would hold on to its old table
-- when a rebuild swaps it. The function's own file says what it does.
create view queried_events with (security_barrier) as
select e.id, e.event, e.distinct_id, e.received_at, e.properties
from analytics_events e where e.project_id = nullif(current_setting('service.project_id', true), '');

create view queried_errors with (security_barrier) as
select e.id, e.case_id, e.fingerprint, e.level, e.environment, e.release, e.user_id, e.received_at, e.tags
from log_events e
where e.project_id = nullif(current_setting('service.project_id', true), '') and e.case_id is not null;

create function deploys_as_queried() returns table (
    id text, version text, environment text, sha text, branch text, source text, trusted boolean,
    automation_run_id text, recorded_at bigint
) language sql stable as $body$
    select d.id, d.version, d.environment, d.sha, d.branch, d.source, d.trusted, d.automation_run_id, d.recorded_at
    from deploys d where false
$body$;
create view queried_deploys with (security_barrier) as
select d.id, d.version, d.environment, d.sha, d.branch, d.source, d.trusted, d.automation_run_id, d.recorded_at
from deploys_as_queried() d;
