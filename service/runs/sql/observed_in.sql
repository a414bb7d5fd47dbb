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
