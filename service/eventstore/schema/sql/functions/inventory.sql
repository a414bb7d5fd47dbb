-- What a project, or an account itself, consists of: counts, the samples of a manifest, and what goes with it. Every
-- number comes from an index; events are counted by the heads of their streams. Read under the exclusive gate of a
-- fence, where nothing changes any more. The samples of a type are its first ones by id, no more than can be shown.
-- Of a project `memberships` are everybody's, auditors' too, of an account its own.
create or replace function inventory(scope text) returns jsonb language plpgsql stable as $body$
declare
    counts   jsonb;
    samples  jsonb;
    cascaded jsonb;
begin
    select
    jsonb_build_object(
        'contracts', (select count(*) from automation_contracts t where t.project_id = scope),
        'automations', (select coalesce(sum(jsonb_array_length(t.automations)), 0)
            from automation_contracts t where t.project_id = scope),
        'credentials', (select count(*) from credentials t where t.project_id = scope),
        'trigger_receipts', (select count(*) from trigger_receipts t where t.project_id = scope),
        'claims', (select count(*) from claims t where t.project_id = scope),
        'runs', (select count(*) from automation_runs t where t.project_id = scope),
        'approvals', (select count(*) from approvals t where t.project_id = scope),
        'grants', (select count(*) from grants t where t.project_id = scope),
        'pr_proofs', (select coalesce(sum(jsonb_array_length(t.state -> 'proofs')), 0)
            from automation_runs t where t.project_id = scope),
        'verifications', (select count(*) from automation_runs t
            where t.project_id = scope and jsonb_typeof(t.state -> 'deploy') = 'object'),
        'reports', (select count(*) from reports t where t.project_id = scope and t.recorded_at is not null),
        'events', (select coalesce(sum(h.revision), 0) from stream_heads h where h.project_id = scope)
    ) into counts;

    select coalesce(jsonb_agg(jsonb_build_object('type', s.type, 'id', s.id, 'automation_id', s.automation_id,
        'status', s.status, 'created_at', s.created_at)), '[]') from (
        (select 'contracts' as type, t.id, null as automation_id, t.status, t.created_at
            from automation_contracts t where t.project_id = scope)
        union all
        (select 'automations', a.entry #>> '{saved,automation_id}', a.entry #>> '{saved,automation_id}',
            case when (a.entry ->> 'enabled')::boolean then 'enabled' else 'disabled' end, t.created_at
            from automation_contracts t cross join lateral jsonb_array_elements(t.automations) a(entry)
            where t.project_id = scope order by 2 limit 20)
        union all
        (select 'credentials', t.id, t.automation_id,
            case when t.revoked_at is null then 'active' else 'revoked' end, t.created_at
            from credentials t where t.project_id = scope order by t.id limit 20)
        union all
        (select 'trigger_receipts', t.id, t.automation_id, t.status, t.issued_at
            from trigger_receipts t where t.project_id = scope order by t.id limit 20)
        union all
        (select 'claims', t.id, t.automation_id, t.status, t.claimed_at
            from claims t where t.project_id = scope order by t.id limit 20)
        union all
        (select 'runs', t.id, t.automation_id, coalesce(t.outcome, t.phase), t.started_at
            from automation_runs t where t.project_id = scope order by t.id limit 20)
        union all
        (select 'approvals', t.id, t.automation_id, t.status, t.requested_at
            from approvals t where t.project_id = scope order by t.id limit 20)
        union all
        (select 'grants', t.id, t.automation_id, t.status, t.authorized_at
            from grants t where t.project_id = scope order by t.id limit 20)
        union all
        (select 'pr_proofs', f.proof ->> 'proof_id', t.automation_id, f.proof ->> 'observation',
            (f.proof ->> 'recorded_at')::bigint
            from automation_runs t cross join lateral jsonb_array_elements(t.state -> 'proofs') f(proof)
            where t.project_id = scope order by 2 limit 20)
        union all
        (select 'verifications', t.id, t.automation_id, coalesce(t.outcome, t.phase), t.started_at
            from automation_runs t
            where t.project_id = scope and jsonb_typeof(t.state -> 'deploy') = 'object' order by t.id limit 20)
        union all
        (select 'reports', t.id, t.automation_id, t.status, t.recorded_at
            from reports t where t.project_id = scope and t.recorded_at is not null order by t.id limit 20)
    ) s into samples;

    select
    jsonb_build_object(
        'webhooks', (select count(*) from webhooks t where t.project_id = scope),
        'projects', (select count(*) from projects t where t.project_id = scope),
        'api_keys', (select count(*) from api_keys t where t.project_id = scope),
        'credentials', (select count(*) from credentials t where t.project_id = scope),
        'memberships', (select count(*) from memberships t where t.project_id = scope)
            + (select count(*) from memberships t where t.user_id = scope)
            + (select count(*) from auditors t where t.project_id = scope)
            + (select count(*) from auditors t where t.user_id = scope),
        'cases', (select count(*) from cases t where t.project_id = scope)
    ) into cascaded;
    return jsonb_build_object('counts', counts, 'samples', samples, 'cascaded', cascaded);
end
$body$;
