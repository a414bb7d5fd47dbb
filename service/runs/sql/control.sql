-- Everything that control shows of a project's automation, at one time (G-102, R-AUT-11). Live runs, unfinished grants
-- and open receipts are looked at for exceptions, the oldest first; of each list one more than is shown is read.
select json_build_object(
    'now', (select service_seconds()),
    'contract', (select row_to_json(k) from automation_contracts k where k.project_id = p.id),
    'evidence', (
        \ir ../../onboarding/sql/parts/evidence.sql
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
            \ir parts/run_bundle.sql
        ), '[]')
        from (
            select r.* from automation_runs r
            where r.project_id = p.id and (r.live or r.phase = 'external_follow_up_required' or exists (
                select from grants g
                where g.project_id = r.project_id and g.run_id = r.id and g.status in ('consumed', 'unresolved')))
            order by r.started_at, r.id limit %(most)s) r),
    'receipts', (
        select coalesce(json_agg(
            \ir parts/receipt_bundle.sql
        ), '[]')
        from (
            select t.* from trigger_receipts t
            where t.project_id = p.id and t.status = 'issued'
            order by t.issued_at, t.id limit %(most)s) t),
    'reports', (
        select coalesce(json_agg(row_to_json(q)), '[]')
        from (
            select q.id report_id, q.automation_id, q.run_id, q.period_start, q.period_end, q.recorded_at
            from reports q
            where q.project_id = p.id and q.recorded_at is not null
            order by q.recorded_at desc, q.id desc limit %(most_reports)s) q))::text
from projects p
where p.id = %(project_id)s
