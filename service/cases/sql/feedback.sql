-- A page of what people wrote, newest first: all of it, about the errors of some cases, or without a case. It is
-- planned for its values.
select
\ir parts/written.sql
from feedback_reports f
where f.project_id = %(project_id)s and (f.received_at, f.id) < (%(at)s, %(id)s)
    and (%(case_ids)s::text[] is null or f.case_id = any(%(case_ids)s::text[]))
    and (not %(without_case)s::boolean or f.case_id is null)
order by f.received_at desc, f.id desc
limit %(limit)s
