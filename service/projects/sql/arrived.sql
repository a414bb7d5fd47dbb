-- What has arrived in a project at all, what has been set up in it, and whether it has any error, by whatever way.
select coalesce(bool_or(u.errors > 0), false), coalesce(bool_or(u.analytics > 0), false),
    exists (select from deploys d where d.project_id = %(project_id)s),
    exists (select from cases c where c.project_id = %(project_id)s),
    exists (select from cases c where c.project_id = %(project_id)s and c.status = 'open' and not exists (
        select from case_stats s where s.project_id = c.project_id and s.id = c.id and not s.unmarked and not exists (
            select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
            where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked)))
        or exists (select from cases c where c.project_id = %(project_id)s and c.status = 'overflow'),
    exists (select from provider_connections n where n.project_id = %(project_id)s and n.status = 'connected'),
    exists (select from onboarding o where o.project_id = %(project_id)s),
    exists (select from onboarding o where o.project_id = %(project_id)s and o.status <> %(verified)s),
    exists (select from case_stats s where s.project_id = %(project_id)s)
from usage_days u
where u.project_id = %(project_id)s
