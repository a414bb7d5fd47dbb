-- Those of some cases that had an error in an environment; of one that had errors in more environments than are kept,
-- its latest errors tell.
select s.id
from case_stats s
where s.project_id = %(project_id)s and s.id = any(%(case_ids)s) and (
    s.environments @> array[%(environment)s]::text[]
    or cardinality(s.environments) >= %(environments_kept)s and exists (
        select from (
            select e.environment from log_events e
            where e.project_id = s.project_id and e.case_id = s.id
            order by e.received_at desc limit 1000) e
        where e.environment = %(environment)s))
