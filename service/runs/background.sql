-- forget_decisions --
-- Delete some of a project's oldest decisions that are past its days. Of an automation and a case even the last record
-- goes: the next look that considers the case makes it anew.
delete from automation_decisions d
where d.project_id = %(project_id)s and d.id = any(array(
    select o.id from automation_decisions o
    where o.project_id = %(project_id)s and o.decided_at < (select service_seconds()) - %(days)s * 86400
    order by o.seq limit %(most)s))

-- forget_looks --
-- Delete a project's looks that are past its days.
delete from automation_looks
where project_id = %(project_id)s and hour < (select service_seconds()) - %(days)s * 86400

-- forget_turns --
-- Delete the turns of more than a day ago: whatever is still due then comes first anyway.
delete from sweep_turns where considered_at < (select service_now()) - interval '1 day'

-- now_seconds --
-- The moment, in whole epoch seconds.
select service_seconds()

-- past_changed --
-- Cases to which something happened since a moment: an error, or an event of their own.
select e.case_id
from log_events e
where e.project_id = %(project_id)s and e.case_id is not null and e.received_at > %(start)s
union
select e.stream_id
from events e
where e.project_id = %(project_id)s and e.kind = 'case' and e.recorded_at >= to_timestamp(%(start)s + 1)

-- past_unchanged --
-- A page of the other open cases in the order of looks: those with errors from before a moment left, or those without.
-- Where errors by the public DSN are not accepted, the counts are those of the others.
select s.id, s.event_count, s.last_seen_at
from (
    select c.project_id, c.id,
        c.event_count - case when p.accepts then 0 else c.public_count end as event_count,
        case when p.accepts or c.public_count = 0 then c.last_seen_at
            else coalesce(c.server_last_seen_at, 0) end as last_seen_at
    from (select accepts_public(project => %(project_id)s) as accepts) p, case_stats c
    where c.project_id = %(project_id)s and (p.accepts or c.public_count < c.event_count)
) s
join cases c on c.project_id = s.project_id and c.id = s.id and c.status = 'open'
left join (
    select distinct e.case_id from log_events e
    where e.project_id = %(project_id)s and e.case_id is not null and e.received_at <= %(start)s
) k on k.case_id = s.id
where s.project_id = %(project_id)s and (k.case_id is not null) = %(kept)s and s.id <> all(%(changed)s::text[])
    and (-s.event_count, -s.last_seen_at, s.id) > (%(after_count)s, %(after_seen)s, %(after_id)s)
order by -s.event_count, -s.last_seen_at, s.id
limit %(most)s

-- past_counts --
-- What is counted of cases in all, among the errors that are kept from before a moment, and after it. Where errors by
-- the public DSN are not accepted, those of the others count alone.
select s.id, case when s.apart then s.event_count - s.public_count else s.event_count end, s.first_seen_at,
    case when s.apart then s.server_unmarked else s.unmarked end,
    case when s.apart then s.server_environments else s.environments end, n.number, n.last_seen_at, n.unmarked,
    n.environments, coalesce(l.number, 0)
from (
    select c.*, c.public_count > 0 and not p.accepts as apart
    from (select accepts_public(project => %(project_id)s) as accepts) p, case_stats c
    where c.project_id = %(project_id)s and c.id = any(%(case_ids)s::text[])
) s
left join (
    select e.case_id, count(*) as number, max(e.received_at) as last_seen_at,
        bool_or(e.marker_hash is null) as unmarked, array_agg(distinct e.environment) as environments
    from log_events e
    where e.project_id = %(project_id)s and e.case_id = any(%(case_ids)s::text[]) and e.received_at <= %(start)s
        and (not e.public or accepts_public(project => %(project_id)s))
    group by 1
) n on n.case_id = s.id
left join (
    select e.case_id, count(*) as number
    from log_events e
    where e.project_id = %(project_id)s and e.case_id = any(%(case_ids)s::text[]) and e.received_at > %(start)s
        and (not e.public or accepts_public(project => %(project_id)s))
    group by 1
) l on l.case_id = s.id

-- past_errors --
-- The errors of cases since a moment, by the second: of those by the public DSN only what is accepted.
select e.received_at, e.case_id, count(*), bool_or(e.marker_hash is null), array_agg(distinct e.environment)
from log_events e
where e.project_id = %(project_id)s and e.case_id is not null and e.received_at > %(start)s
    and (not e.public or accepts_public(project => %(project_id)s))
group by 1, 2
order by 1, 2

-- past_events --
-- The events of cases.
select e.stream_id, e.revision, e.topic, e.payload::text, floor(extract(epoch from e.recorded_at))::bigint
from events e
where e.project_id = %(project_id)s and e.stream_id = any(%(case_ids)s::text[])
order by e.stream_id, e.revision

-- past_stream --
-- The events of one stream.
select e.revision, e.topic, e.payload::text, floor(extract(epoch from e.recorded_at))::bigint
from events e
where e.project_id = %(project_id)s and e.stream_id = %(stream_id)s
order by e.revision

-- past_looks --
-- The looks since an hour.
select k.automation_id, k.hour, k.look, k.asked_by, k.seconds
from automation_looks k
where k.project_id = %(project_id)s and k.hour >= %(since)s
order by k.hour, k.automation_id, k.look, k.asked_by

-- waiting --
-- What a sweep takes up in a step: first what has waited longest, whoever it belongs to, then some of what remains, by
-- accounts in turn, of which those come first that have none among the former.
with due as (
    select d.project_id, d.id, paying_account(project => p.project_id, maker => p.created_by) as account,
        row_number() over (order by t.considered_at nulls first, d.project_id, d.id) as place
    from (
        \include due
    ) d
    join projects p on p.project_id = d.project_id and p.id = d.project_id and p.status = 'active'
    left join sweep_turns t on t.project_id = d.project_id and t.step = d.step and t.id = d.id
    where d.step = %(step)s
), shared as (
    select *, place > %(longest)s as by_account,
        row_number() over (partition by account, place > %(longest)s order by place) as of_account,
        bool_or(place <= %(longest)s) over (partition by account) as served
    from due
)
select project_id, id
from shared
order by by_account, case when by_account then of_account end, by_account and served, place
limit %(most)s

-- part due --
-- What a sweep takes up, by step, each since when it has been due: receipts that may end before a run consumes them;
-- claims whose lease has ended; runs whose deadline, lease or deploy has not been kept, and those at rest, which a stop
-- may have ended; grants that may lapse, and those whose effect no live run will settle; requests that nobody has
-- answered; runs whose deploy is being verified; projects with an enabled automation; projects with alerts whose
-- evaluation is due.
select 'receipts' as step, t.project_id, t.id, to_timestamp(t.issued_at) as since
from trigger_receipts t
where t.status in ('issued', 'claimed')
union all
select 'claims', t.project_id, t.id, to_timestamp(t.lease_expires_at)
from claims t
where t.status = 'active' and t.lease_expires_at <= (select service_seconds())
union all
select 'runs', r.project_id, r.id, to_timestamp(least(r.deadline_at, (select service_seconds())))
from automation_runs r
where r.live and case
    when r.phase = 'provider_proof_pending' then r.started_at <= (select service_seconds()) - %(deploy_wait)s
    else r.deadline_at <= (select service_seconds()) or r.state -> 'rest' ? 'until' or exists (
        select from claims c
        where c.project_id = r.project_id and c.id = r.claim_id
            and (c.status <> 'active' or c.lease_expires_at <= (select service_seconds()))) end
union all
select 'grants', t.project_id, t.id, to_timestamp(t.authorized_at)
from grants t
where t.status = 'authorized' or (t.status = 'consumed' and not exists (
    select from automation_runs r where r.project_id = t.project_id and r.id = t.run_id and r.live))
union all
select 'approvals', a.project_id, a.id, to_timestamp(a.requested_at)
from approvals a
where a.status = 'pending'
union all
select 'verification', r.project_id, r.id, to_timestamp((r.state #>> '{deploy,recorded_at}')::bigint)
from automation_runs r
where r.live and r.outcome = 'verifying'
union all
select 'issue', k.project_id, k.project_id, to_timestamp((k.enable_receipt ->> 'enabled_at')::bigint)
from automation_contracts k
where k.status = 'enabled'
union all
select 'alerts', l.project_id, l.project_id, to_timestamp(min(l.due_at))
from alert_looks l
where l.due_at <= (select service_seconds())
group by l.project_id

-- take_turns --
-- Take the turns of objects that no other sweep has taken since this one began. Their projects are held until this is
-- committed: a purge finds the turn afterwards.
insert into sweep_turns (project_id, step, id, considered_at)
select n.project_id, %(step)s, n.id, (select service_now())
from unnest(%(projects)s::text[], %(ids)s::text[]) n(project_id, id)
join projects p on p.project_id = n.project_id and p.id = n.project_id
order by n.project_id, n.id
for key share of p
on conflict (project_id, step, id) do update set considered_at = excluded.considered_at
where sweep_turns.considered_at < %(began)s
returning project_id, id

-- waits --
-- How much is due in some steps, and for how many seconds it has waited at most.
select w.step, count(d.id),
    coalesce(max(extract(epoch from (select service_now()) - greatest(d.considered_at, d.since))), 0)::bigint
from unnest(%(steps)s::text[]) with ordinality w(step, place)
left join (
    select d.step, d.id, d.since, t.considered_at
    from (
        \include due
    ) d
    join projects p on p.project_id = d.project_id and p.id = d.project_id and p.status = 'active'
    left join sweep_turns t on t.project_id = d.project_id and t.step = d.step and t.id = d.id
) d on d.step = w.step
group by w.step, w.place
order by w.place

-- now --
-- The moment.
select service_now()

-- receipts_in_turn --
-- Receipts by name, each with what hangs on it.
select
\include runs.receipt_bundle
::text
from trigger_receipts t
where (t.project_id, t.id) in (select * from unnest(%(projects)s::text[], %(ids)s::text[]))

-- runs_in_turn --
-- Runs by name, each with what hangs on it.
select
\include runs.run_bundle
::text
from automation_runs r
where (r.project_id, r.id) in (select * from unnest(%(projects)s::text[], %(ids)s::text[]))

-- grants_in_turn --
-- Grants by name, each with its run.
select json_build_object('grant', row_to_json(t), 'around',
    \include runs.run_bundle
)::text
from grants t join automation_runs r on r.project_id = t.project_id and r.id = t.run_id
where (t.project_id, t.id) in (select * from unnest(%(projects)s::text[], %(ids)s::text[]))

-- approvals_in_turn --
-- Requests by name, each with its run.
select json_build_object('approval', row_to_json(a), 'around',
    \include runs.run_bundle
)::text
from approvals a join automation_runs r on r.project_id = a.project_id and r.id = a.run_id
where (a.project_id, a.id) in (select * from unnest(%(projects)s::text[], %(ids)s::text[]))

-- started_effects --
-- Effects that have begun and that nothing has settled, of a project and of one of its automations where these are not
-- null.
select g.project_id, g.automation_id, g.run_id, g.id, g.kind, g.status, (g.state ->> 'consumed_at')::bigint
from grants g
where g.status in ('consumed', 'unresolved')
    and (%(project_id)s::text is null or g.project_id = %(project_id)s)
    and (%(automation_id)s::text is null or g.automation_id = %(automation_id)s)
order by g.project_id, g.automation_id, g.id
limit %(most)s
