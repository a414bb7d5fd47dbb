-- A page of runs by the time they began, newest first: of an automation, of a case, and of those that may have ended in
-- an outcome, where these are not null. A run that time has failed is recorded as live until the next sweep. Live runs
-- and the others are a search each, in the order of an index: asked with "or", the database would collect all of both
-- and sort them.
select
\ir parts/run_bundle.sql
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
