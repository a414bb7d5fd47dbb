-- What waits for attention in a project: its last deploy, its open cases but for those of an onboarding proof alone,
-- the cases that it opened in this hour and those of them by the public DSN, the hour's overflow case, and whether the
-- project is being deleted, the level of its records without any, and when the last of those came within a day.
-- Then, when its provider was connected, up to when the exceptions there were read, how many were too many, and whether
-- it has no error at all.
select (select max(d.recorded_at) from deploys d where d.project_id = %(project_id)s),
    (select count(*) from cases c where c.project_id = %(project_id)s and c.status = 'open')
        + (select count(*) from cases c where c.project_id = %(project_id)s and c.status = 'overflow')
        - (select count(*) from case_stats s join cases c on c.project_id = s.project_id and c.id = s.id
            where s.project_id = %(project_id)s and not s.unmarked and c.status = 'open' and not exists (
                select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
                where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked)),
    (select r.opened from case_rates r where r.project_id = %(project_id)s and r.hour = %(hour)s),
    (select least(r.opened_public, r.opened) from case_rates r
        where r.project_id = %(project_id)s and r.hour = %(hour)s),
    c.id, coalesce(c.status = 'overflow', false),
    not exists (select from projects p where p.project_id = wanted.project_id and p.id = wanted.project_id
        and p.status = 'active'),
    coalesce(
        (select s.default_level from project_settings s where s.project_id = %(project_id)s),
        (select d.default_level from public_dsns d where d.project_id = %(project_id)s and d.id = %(project_id)s),
        'error'),
    (select max(k.last_at) from kinds_not_kept k where k.project_id = %(project_id)s and k.day >= %(a_day_ago)s - 86400
        and k.outcome = 'without_level' and k.last_at >= %(a_day_ago)s),
    (select max(t.connected_at) from provider_connections t where t.project_id = %(project_id)s
        and t.status = 'connected'),
    l.read_to, coalesce(l.skipped, 0), not exists (select from case_stats s where s.project_id = %(project_id)s)
from (values (%(project_id)s, %(overflow_id)s)) wanted(project_id, id)
left join cases c on c.project_id = wanted.project_id and c.id = wanted.id
left join provider_looks l on l.project_id = wanted.project_id and l.id = wanted.project_id
