-- part weighed --
-- The rows of a query with their bytes, and those of the rows that follow. The database makes each row once: `offset 0`
-- keeps it from weighing a row again for each of those before it.
select w.*, coalesce(array_agg(w.bytes) over (rows between 1 following and {most} following), '{}')
from (select t.*, octet_length(t::text) as bytes from ({query}) t offset 0) w

-- log_size --
-- The size of the log.
select s.size from log_state s

-- moment --
-- The time, the size of the log, and how many events a project has, those without a position too.
select (select service_seconds()), s.size, (
    select coalesce(sum(h.revision), 0)::bigint from stream_heads h where h.project_id = %(project_id)s)
from log_state s

-- events --
-- The numbered events of a project in the order of the log, each as StoredEvent has it.
select p.position, e.project_id, e.stream_id, e.revision, e.kind, e.topic, e.payload::text, e.event_id, e.command_id,
    e.actor_kind, e.actor_id, e.request_id, e.correlation_id, e.causation_id, e.recorded_at, e.salt, e.payload_hash,
    e.leaf, e.chain
from project_positions p join events e on e.seq = p.seq
where p.project_id = %(project_id)s and e.project_id = %(project_id)s
order by p.position

-- runs --
-- The rows of all runs of a project.
select row_to_json(t)::text from automation_runs t where t.project_id = %(project_id)s order by t.id

-- cases --
-- Every case of a project with its counters: a JSON object each. Comments and runs of agents are lines of their own.
select json_build_object(
    'id', c.id, 'revision', c.case_revision, 'status', c.status, 'fingerprint', c.fingerprint,
    'grouping_version', c.grouping_version, 'suppression_id', c.suppression_id, 'opened_at', c.opened_at,
    'resolved_at', c.resolved_at, 'merged_into', c.merged_into, 'assignee', c.assignee, 'title', s.title,
    'message', s.message, 'culprit', s.culprit, 'level', s.level, 'environment', s.environment, 'release', s.release,
    'environments', s.environments, 'releases', s.releases, 'unmarked', s.unmarked, 'event_count', s.event_count,
    'users_affected', s.users_affected, 'first_seen_at', s.first_seen_at, 'last_seen_at', s.last_seen_at,
    'first_occurred_at', s.first_occurred_at, 'last_occurred_at', s.last_occurred_at,
    'public_count', s.public_count, 'server_last_seen_at', s.server_last_seen_at, 'server_unmarked', s.server_unmarked,
    'server_environments', s.server_environments,
    'sample', s.sample)::text
from cases c left join case_stats s on s.project_id = c.project_id and s.id = c.id
where c.project_id = %(project_id)s
order by c.id

-- comments --
-- The comments of members on the cases of a project, by case, oldest first: a JSON object each.
select json_build_object(
    'case_id', n.case_id, 'id', n.id, 'user_id', n.user_id, 'text', n.text, 'commented_at', n.commented_at)::text
from case_comments n
where n.project_id = %(project_id)s
order by n.case_id, n.commented_at, n.id

-- agent_runs --
-- The runs of agents on the cases of a project, by case, oldest first: a JSON object each.
select json_build_object(
    'case_id', n.case_id, 'id', n.id, 'status', n.status, 'summary_md', n.summary_md, 'pr_url', n.pr_url,
    'recorded_at', n.recorded_at)::text
from case_runs n
where n.project_id = %(project_id)s
order by n.case_id, n.recorded_at, n.id

-- reports --
-- Every report of a project: a JSON object each.
select json_build_object(
    'id', t.id, 'run_id', t.run_id, 'automation_id', t.automation_id, 'status', t.status,
    'period_start', t.period_start, 'period_end', t.period_end, 'recorded_at', t.recorded_at,
    'report', t.report_json::jsonb)::text
from reports t
where t.project_id = %(project_id)s
order by t.id

-- errors --
-- The errors of a project that are kept, oldest first: a JSON object each, and beside it the packed `extra`.
select json_build_object(
    'id', e.id, 'received_at', e.received_at, 'occurred_at', e.occurred_at, 'level', e.level,
    'message', e.message, 'environment', e.environment,
    'release', e.release, 'user', e.user_data, 'tags', e.tags, 'extra', e.extra, 'case_id', e.case_id,
    'fingerprint', e.fingerprint, 'grouped_by', e.grouped_by, 'adjusted', e.adjusted,
    'public', e.public)::text, e.packed
from log_events e
where e.project_id = %(project_id)s
order by e.received_at, e.id

-- analytics --
-- The analytics events of a project that are kept, oldest first: a JSON object each.
select json_build_object(
    'id', e.id, 'received_at', e.received_at, 'occurred_at', e.occurred_at, 'event', e.event,
    'distinct_id', e.distinct_id,
    'properties', e.properties, 'adjusted', e.adjusted, 'public', e.public)::text
from analytics_events e
where e.project_id = %(project_id)s
order by e.received_at, e.id

-- deploys --
-- Every deploy of a project with its message: a JSON object each.
select json_build_object(
    'id', t.id, 'version', t.version, 'environment', t.environment, 'sha', t.sha, 'branch', t.branch,
    'source', t.source, 'trusted', t.trusted, 'credential_id', t.credential_id,
    'automation_run_id', t.automation_run_id, 'recorded_at', t.recorded_at, 'message', n.message)::text
from deploys t left join deploy_notes n on n.project_id = t.project_id and n.id = t.id
where t.project_id = %(project_id)s
order by t.recorded_at, t.id

-- people --
-- The people of a project of whom a product told something, with their names: a JSON object each.
select json_build_object(
    'id', p.id, 'names', coalesce((
        select json_agg(n.name order by n.name) from person_names n
        where n.project_id = p.project_id and n.person = p.id), json_build_array(p.id)),
    'identified', p.identified, 'properties', p.properties, 'links_refused', p.refused, 'told_at', p.told_at)::text
from telemetry_people p
where p.project_id = %(project_id)s
order by p.id

-- feedback --
-- What people wrote in a project, oldest first: a JSON object each.
select json_build_object(
    'id', f.id, 'received_at', f.received_at, 'source', f.source, 'text', f.message, 'name', f.name, 'email', f.email,
    'url', f.url, 'user_id', f.user_id, 'release', f.release, 'environment', f.environment,
    'sdk_event_id', f.event_key, 'event_id', f.error_id, 'case_id', f.case_id, 'adjusted', f.adjusted,
    'public', f.public)::text
from feedback_reports f
where f.project_id = %(project_id)s
order by f.received_at, f.id
