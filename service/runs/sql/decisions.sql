-- A page of decisions, newest first: of a case, of an automation, and of those that passed or were passed over, where
-- these are not null.
select row_to_json(d)::text, d.seq
from automation_decisions d
where d.project_id = %(project_id)s and d.seq < %(at)s
    and (%(case_id)s::text is null or d.case_id = %(case_id)s)
    and (%(automation_id)s::text is null or d.automation_id = %(automation_id)s)
    and (%(passed)s::boolean is null or (d.code is null) = %(passed)s)
order by d.seq desc
limit %(limit)s
