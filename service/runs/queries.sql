-- part receipt_bundle --
-- Receipt `t` with what hangs on it.
json_build_object(
    'now', (select service_seconds()),
    'fenced', coalesce((
        select p.status <> 'active' from projects p
        where p.project_id = t.project_id and p.id = t.project_id), false),
    'receipt', row_to_json(t),
    'claim', (select row_to_json(c) from claims c where c.project_id = t.project_id and c.id = t.claim_id),
    'lease', (select row_to_json(l) from leases l where l.project_id = t.project_id and l.case_id = t.case_id),
    'case', (select row_to_json(k) from cases k where k.project_id = t.project_id and k.id = t.case_id),
    'evidence', (select row_to_json(e) from trigger_evidence e where e.project_id = t.project_id and e.id = t.id))

-- part run_bundle --
-- Run `r` with what hangs on it.
json_build_object(
    'now', (select service_seconds()),
    'fenced', coalesce((
        select p.status <> 'active' from projects p
        where p.project_id = r.project_id and p.id = r.project_id), false),
    'run', row_to_json(r),
    'claim', (select row_to_json(c) from claims c where c.project_id = r.project_id and c.id = r.claim_id),
    'lease', (select row_to_json(l) from leases l where l.project_id = r.project_id and l.case_id = r.case_id),
    'grants', (
        select coalesce(json_agg(row_to_json(g)), '[]') from grants g
        where g.project_id = r.project_id and g.run_id = r.id),
    'approvals', (
        select coalesce(json_agg(row_to_json(a)), '[]') from approvals a
        where a.project_id = r.project_id and a.run_id = r.id),
    'report', (select p.state from reports p where p.project_id = r.project_id and p.id = r.state ->> 'report_id'))

-- settled_until --
-- The last second that counts for what is read after this.
select settled_until(gate => %(gate)s, lag => %(lag)s)

-- run_row --
-- The row of a run, and the time.
select row_to_json(t)::text, (select service_seconds())
from automation_runs t
where t.project_id = %(project_id)s and t.id = %(run_id)s

-- decisions --
-- A page of decisions, newest first: of a case, of an automation, and of those that passed or were passed over, where
-- these are not null.
select row_to_json(d)::text, d.seq
from automation_decisions d
where d.project_id = %(project_id)s and d.seq < %(at)s
    and (%(case_id)s::text is null or d.case_id = %(case_id)s)
    and (%(automation_id)s::text is null or d.automation_id = %(automation_id)s)
    and (%(passed)s::boolean is null or (d.code is null) = %(passed)s)
order by d.seq desc
limit %(limit)s

-- run --
-- A run with its contract and its recorded report, which lists leave out: it may be long.
select json_build_object(
    'run',
    \include run_bundle
    , 'contract', (select row_to_json(a) from automation_contracts a where a.project_id = r.project_id),
    'report_json', (
        select p.report_json from reports p where p.project_id = r.project_id and p.id = r.state ->> 'report_id'))::text
from automation_runs r
where r.project_id = %(project_id)s and r.id = %(run_id)s

-- runs --
-- A page of runs by the time they began, newest first: of an automation, of a case, and of those that may have ended in
-- an outcome, where these are not null. A run that time has failed is recorded as live until the next sweep. Live runs
-- and the others are a search each, in the order of an index: asked with "or", the database would collect all of both
-- and sort them.
select
\include run_bundle
::text
from (
    (select * from automation_runs
    where %(outcome)s::text is null and project_id = %(project_id)s and (started_at, id) < (%(at)s, %(id)s)
        and (%(automation_id)s::text is null or automation_id = %(automation_id)s)
        and (%(case_id)s::text is null or case_id = %(case_id)s)
    order by started_at desc, id desc limit %(limit)s)
    union all
    (select * from automation_runs
    where %(outcome)s::text is not null and live
        and project_id = %(project_id)s and (started_at, id) < (%(at)s, %(id)s)
        and (%(automation_id)s::text is null or automation_id = %(automation_id)s)
        and (%(case_id)s::text is null or case_id = %(case_id)s)
    order by started_at desc, id desc limit %(limit)s)
    union all
    (select * from automation_runs
    where outcome = %(outcome)s and not live
        and project_id = %(project_id)s and (started_at, id) < (%(at)s, %(id)s)
        and (%(automation_id)s::text is null or automation_id = %(automation_id)s)
        and (%(case_id)s::text is null or case_id = %(case_id)s)
    order by started_at desc, id desc limit %(limit)s)
) r
order by r.started_at desc, r.id desc
limit %(limit)s

-- case_verdict --
-- The newest verdict about a repair of a case, by the time its run began.
select (r.state -> 'verdict')::text
from automation_runs r
where r.project_id = %(project_id)s and r.case_id = %(case_id)s and r.state ->> 'verdict' is not null
order by r.started_at desc, r.id desc
limit 1

-- receipt --
-- One receipt with what hangs on it.
select
\include receipt_bundle
::text
from trigger_receipts t
where t.project_id = %(project_id)s and t.id = %(receipt_id)s

-- receipts --
-- A page of receipts by the time they were issued, newest first: of an automation, and of those that are recorded as
-- one of some statuses, where these are not null. Each status is a search of its own, in the order of an index.
select
\include receipt_bundle
::text
from (
    (select * from trigger_receipts
    where %(recorded)s::text[] is null and project_id = %(project_id)s and (issued_at, id) < (%(at)s, %(id)s)
        and (%(automation_id)s::text is null or automation_id = %(automation_id)s)
    order by issued_at desc, id desc limit %(limit)s)
    union all
    (select o.* from unnest(%(recorded)s::text[]) w(status)
    cross join lateral (
        select * from trigger_receipts x
        where x.project_id = %(project_id)s and x.status = w.status and (x.issued_at, x.id) < (%(at)s, %(id)s)
            and (%(automation_id)s::text is null or x.automation_id = %(automation_id)s)
        order by x.issued_at desc, x.id desc limit %(limit)s) o)
) t
order by t.issued_at desc, t.id desc
limit %(limit)s

-- approvals --
-- A page of requests with their runs by the time they were made, newest first: of a run, and of those that are recorded
-- as one of some statuses, where these are not null. Each status is a search of its own, in the order of an index.
select json_build_object('approval', row_to_json(a), 'around',
    \include run_bundle
)::text
from (
    (select * from approvals
    where %(recorded)s::text[] is null and project_id = %(project_id)s and (requested_at, id) < (%(at)s, %(id)s)
        and (%(run_id)s::text is null or run_id = %(run_id)s)
    order by requested_at desc, id desc limit %(limit)s)
    union all
    (select o.* from unnest(%(recorded)s::text[]) w(status)
    cross join lateral (
        select * from approvals x
        where x.project_id = %(project_id)s and x.status = w.status and (x.requested_at, x.id) < (%(at)s, %(id)s)
            and (%(run_id)s::text is null or x.run_id = %(run_id)s)
        order by x.requested_at desc, x.id desc limit %(limit)s) o)
) a
join automation_runs r on r.project_id = a.project_id and r.id = a.run_id
order by a.requested_at desc, a.id desc
limit %(limit)s

-- active_claim --
-- The claim that the lease of a case names, with the lease, and the time.
select row_to_json(t)::text, row_to_json(l)::text, (select service_seconds())
from leases l
join claims t on t.project_id = l.project_id and t.id = l.claim_id
join projects p on p.project_id = l.project_id and p.status = 'active'
where l.project_id = %(project_id)s and l.case_id = %(case_id)s

-- control --
-- Everything that control shows of a project's automation, at one time (G-102, R-AUT-11). Live runs, unfinished grants
-- and open receipts are looked at for exceptions, the oldest first; of each list one more than is shown is read.
select json_build_object(
    'now', (select service_seconds()),
    'contract', (select row_to_json(k) from automation_contracts k where k.project_id = p.id),
    'evidence', (
        \include onboarding.evidence
    ),
    'no_error_source', not exists (select from case_stats s where s.project_id = p.id),
    'ledgers', (select coalesce(json_agg(row_to_json(l)), '[]') from ledgers l where l.project_id = p.id),
    'credentials', (
        select coalesce(json_agg(json_build_object('row', row_to_json(c), 'last_used_at', c.last_used_at)), '[]')
        from (
            select c.*, u.last_used_at
            from credentials c left join credential_uses u on u.project_id = c.project_id and u.id = c.id
            where c.project_id = p.id
            order by c.created_at desc, c.id desc limit %(most_credentials)s) c),
    'runners', (
        select coalesce(json_agg(distinct c.automation_id), '[]') from credentials c
        where c.project_id = p.id and c.kind = %(runner)s and c.revoked_at is null
            and c.expires_at > (select service_seconds())),
    'runs', (
        select coalesce(json_agg(
            \include run_bundle
        ), '[]')
        from (
            select r.* from automation_runs r
            where r.project_id = p.id and (r.live or r.phase = 'external_follow_up_required' or exists (
                select from grants g
                where g.project_id = r.project_id and g.run_id = r.id and g.status in ('consumed', 'unresolved')))
            order by r.started_at, r.id limit %(most)s) r),
    'receipts', (
        select coalesce(json_agg(
            \include receipt_bundle
        ), '[]')
        from (
            select t.* from trigger_receipts t
            where t.project_id = p.id and t.status = 'issued'
            order by t.issued_at, t.id limit %(most)s) t),
    'pull_requests', (
        select coalesce(json_agg(row_to_json(o)), '[]')
        from (
            select o.* from pull_requests o
            where o.project_id = p.id and o.verdict = 'ungranted' and o.status = 'open'
            order by o.observed_at desc, o.id desc limit %(most)s) o),
    'reports', (
        select coalesce(json_agg(row_to_json(q)), '[]')
        from (
            select q.id report_id, q.automation_id, q.run_id, q.period_start, q.period_end, q.recorded_at
            from reports q
            where q.project_id = p.id and q.recorded_at is not null
            order by q.recorded_at desc, q.id desc limit %(most_reports)s) q))::text
from projects p
where p.id = %(project_id)s

-- look --
-- Everything that issuing receipts for an automation is judged on before anything is locked: the contract, the
-- environment of the approved signal map, open cases with their chains and the automation's last record of each, and
-- its own open receipts. Whether a case with very many environments has an error where the map says tells its
-- telemetry, which is rarely asked: all its partitions would be planned for and opened with each look.
select json_build_object(
    'now', (select service_seconds()),
    'contract', (select row_to_json(a) from automation_contracts a where a.project_id = p.id),
    'mapped', (select m.plan -> 'deploy' ->> 'environment' from signal_maps m where m.project_id = p.id),
    'cases', (
        select coalesce(json_agg(x.bundle), '[]')
        from (
            select json_build_object(
                \include case_found
                , 'seen_where_mapped', case
                    when s.environments @> array[
                        (select m.plan -> 'deploy' ->> 'environment' from signal_maps m where m.project_id = p.id)
                    ]::text[] then true
                    when cardinality(s.environments) < %(environments_kept)s then false end,
                'last', (
                    select json_build_object('id', d.id, 'outcome', d.outcome) from automation_decisions d
                    where d.project_id = c.project_id and d.case_id = c.id and d.automation_id = %(automation_id)s
                    order by -d.seq limit 1)) as bundle
            from (
                \include picked
            ) s
            cross join lateral (select s.project_id, s.id, s.case_revision, 'open' as status) c
            \include chain
            order by s.event_count desc, s.last_seen_at desc nulls last, s.id
        ) x),
    'open', (
        select coalesce(json_agg(x.bundle), '[]')
        from (
            select
            \include receipt_bundle
            as bundle
            from trigger_receipts t
            where t.project_id = p.id and t.automation_id = %(automation_id)s and t.status in ('issued', 'claimed')
        ) x))::text
from (values (%(project_id)s::text)) p(id)

-- part case_found --
-- The members of a case `c` that is counted in `s`, with its chain (chain.sql). Of a chain only the states count: of a
-- receipt whose run has begun only that it has, of a run only what ends it with time, and of one that is over when it
-- ended, and what people did to its pull request. The rest of them is most of what a look would read.
'id', c.id, 'revision', c.case_revision, 'status', c.status, 'unmarked', s.unmarked,
'imported', s.unmarked is not true
    and (select imported from cases where project_id = c.project_id and id = c.id) is true,
'event_count', s.event_count, 'first_seen_at', s.first_seen_at, 'last_seen_at', s.last_seen_at,
'provider_read_to', case when s.provider_count > 0 then (
    select coalesce(max(read_to), 0) from provider_looks where project_id = c.project_id) end,
'lease', row_to_json(l),
'receipt', case when t.run_id is null then t.state::json
    else json_build_object('status', t.status, 'run_id', t.run_id) end,
'claim', k.state,
'run', case when r.live then json_build_object(
    'status', r.state -> 'status', 'deadline_at', r.deadline_at, 'claim_id', r.claim_id,
    'grants', r.state -> 'grants')
    when r.id is not null then json_build_object(
        'status', r.state -> 'status', 'finished_at', r.state -> 'finished_at',
        'sights', coalesce(r.state -> 'sights', '[]'))
    end

-- part picked --
-- The open cases of project `p` that a look is about: the 500 most frequent ones. Which they are is told by counts
-- alone; what is read beside these is read of the picked ones only, and what was read to pick a case is not looked up
-- again. Of up to 1,000 open cases all are compared. Of more the most frequent are walked through: `frequent_rank`
-- orders them nearly, so all that are as frequent as the last one are compared, too. (`offset 0` and the question for
-- one status keep the planner, which knows little of a young database, from turning the order round.) Where errors by
-- the public DSN are not accepted, counts are those of the others, and a case without any of these is not looked at.
-- What the connected provider counted is one of the others (G-182).
select o.project_id, o.id, o.case_revision, o.first_seen_at, o.event_count, o.last_seen_at, o.unmarked, o.environments,
    o.provider_count
from (select count(*) > 1000 as many, not accepts_public(project => p.id) as strict
    from (select from cases where project_id = p.id and status = 'open' limit 1001) c) n
cross join lateral (
    select f.project_id, f.id, f.case_revision, f.first_seen_at, f.provider_count,
        case when f.apart then greatest(coalesce(f.own_count, f.event_count) - f.public_count, f.provider_count)
            else f.event_count end as event_count,
        case when f.apart then nullif(f.server_last_seen_at, 0) else f.last_seen_at end as last_seen_at,
        case when f.apart then f.server_unmarked else f.unmarked end as unmarked,
        case when f.apart then f.server_environments else f.environments end as environments
    from (
        (select c.project_id, c.id, c.case_revision, s.*, n.strict and s.public_count > 0 as apart
        from (select project_id, id, case_revision from cases where project_id = p.id and status = 'open' offset 0) c
        cross join lateral (
            select event_count, last_seen_at, first_seen_at, unmarked, environments, public_count, server_last_seen_at,
                server_unmarked, server_environments, own_count, provider_count
            from case_stats where project_id = c.project_id and id = c.id offset 0) s
        where not n.many and (not n.strict or s.public_count < s.event_count or s.provider_count > 0))
        union all
        (select s.project_id, s.id, (select case_revision from cases where project_id = s.project_id and id = s.id),
            event_count, last_seen_at, first_seen_at, unmarked, environments, public_count, server_last_seen_at,
            server_unmarked, server_environments, own_count, provider_count, n.strict and s.public_count > 0
        from (
            select project_id, id, event_count, last_seen_at, first_seen_at, unmarked, environments, public_count,
                server_last_seen_at, server_unmarked, server_environments, own_count, provider_count
            from case_stats s
            where n.many and s.project_id = p.id
                and (not n.strict or s.public_count < s.event_count or s.provider_count > 0)
                and (select c.status = 'open' from cases c where c.project_id = s.project_id and c.id = s.id)
            order by s.frequent_rank desc fetch first 500 rows with ties) s)
    ) f
) o
order by o.event_count desc, o.last_seen_at desc nulls last, o.id
limit 500

-- part chain --
-- The latest chain of case `c`: its lease, the receipt, the claim and the run of this.
left join leases l on l.project_id = c.project_id and l.case_id = c.id
left join trigger_receipts t on t.project_id = c.project_id and t.id = l.receipt_id
left join claims k on k.project_id = c.project_id and k.id = l.claim_id
left join automation_runs r on r.project_id = c.project_id and r.id = l.run_id

-- observed_in --
-- Those of some cases that had an error in an environment; of one that had errors in more environments than are kept,
-- its latest errors tell, also those of people who were erased. Where errors by the public DSN are not accepted, those
-- of the others count alone.
select s.id
from (select c.project_id, c.id, case when c.public_count > 0 and not p.accepts then c.server_environments
        else c.environments end as environments, p.accepts
    from (select accepts_public(project => %(project_id)s) as accepts) p, case_stats c
    where c.project_id = %(project_id)s and c.id = any(%(case_ids)s)) s
where s.environments @> array[%(environment)s]::text[]
    or cardinality(s.environments) >= %(environments_kept)s and exists (
        select from (
            (select e.environment, e.received_at from log_events e
            where e.project_id = s.project_id and e.case_id = s.id and (s.accepts or not e.public)
            order by e.received_at desc limit 1000)
            union all
            (select r.environment, r.received_at from erased_records r
            where r.project_id = s.project_id and r.case_id = s.id and (s.accepts or not r.public)
            order by r.received_at desc limit 1000)
            order by received_at desc limit 1000) e
        where e.environment = %(environment)s)

-- deployed_since --
-- The first deploy by CI since a moment of each of some cases, in an environment, or in any where that is null.
select m.case_id, d.recorded_at
from unnest(%(case_ids)s::text[], %(moments)s::bigint[]) m(case_id, at)
cross join lateral (
    select recorded_at from deploys
    where project_id = %(project_id)s and recorded_at >= m.at and trusted
        and (%(environment)s::text is null or environment = %(environment)s)
    order by recorded_at limit 1) d

-- note_looks --
-- Keep looks and the decisions that are new in them; returns how many decisions. One statement: its transaction is its
-- own, and holds the gates for as long as it runs.
select note_looks(projects => %(projects)s::text[], gates => %(gates)s::bigint[],
    look_projects => %(look_projects)s::text[], look_automations => %(look_automations)s::text[],
    look_moments => %(look_moments)s::bigint[], look_kinds => %(look_kinds)s::text[],
    look_callers => %(look_callers)s::text[], decisions => %(decisions)s::jsonb)

-- part standing --
-- Where case `c`, counted in `s`, stands with automation: a column for a query of cases. See standing_of.
(select json_build_object(
    'now', (select service_seconds()),
    'contract', (select row_to_json(a) from automation_contracts a where a.project_id = c.project_id),
    'case', json_build_object(
        \include case_found
    ),
    'environments', s.environments,
    'mapped', (select m.plan -> 'deploy' ->> 'environment' from signal_maps m where m.project_id = c.project_id),
    'fenced', exists (select from projects where project_id = c.project_id and status <> 'active'),
    'last', (
        select coalesce(json_agg(row_to_json(d)), '[]')
        from (
            select distinct on (automation_id) automation_id, outcome, code, decided_at
            from automation_decisions
            where project_id = c.project_id and case_id = c.id
            order by automation_id, -seq) d))::text
from (select c.*) c
\include chain
)

-- pull_requests --
-- A page of the pull requests that CI observed, the one observed last first: of a run, and with a verdict, where these
-- are not null.
select row_to_json(t)::text
from pull_requests t
where t.project_id = %(project_id)s and (t.observed_at, t.id) < (%(at)s, %(id)s)
    and (%(run_id)s::text is null or t.run_id = %(run_id)s)
    and (%(verdict)s::text is null or t.verdict = %(verdict)s)
order by t.observed_at desc, t.id desc
limit %(limit)s
