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
