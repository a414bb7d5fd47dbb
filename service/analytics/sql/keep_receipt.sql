-- Keep the receipt of an answer of a provider, and forget those of before but for the one that a plan names.
with forgotten as (
    delete from provider_receipts r
    where r.project_id = %(project_id)s and r.answered_at < (select service_seconds()) - %(kept_seconds)s
        and not exists (select from onboarding o where o.project_id = r.project_id
            and o.plan #>> '{historical_evidence,query_receipt_sha256}' = r.sha256)
        and not exists (select from signal_maps m where m.project_id = r.project_id
            and m.plan #>> '{historical_evidence,query_receipt_sha256}' = r.sha256)
)
insert into provider_receipts (project_id, sha256, provider_project_id, since, until, answered_at)
select p.id, %(sha256)s, %(provider_project_id)s, %(since)s, %(until)s, (select service_seconds())
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s and p.status = 'active'
on conflict (project_id, sha256) do update
set provider_project_id = excluded.provider_project_id, since = excluded.since, until = excluded.until,
    answered_at = excluded.answered_at
where provider_receipts.answered_at < excluded.answered_at - 3600
