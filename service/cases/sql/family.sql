-- A case and those merged into it: when their errors came, and whether some did not come from an onboarding proof.
select t.id, t.first_seen_at, t.last_seen_at, t.unmarked
from (
    select c.id from cases c where c.project_id = %(project_id)s and c.id = %(case_id)s
    union all
    select m.id from cases m where m.project_id = %(project_id)s and m.merged_into = %(case_id)s) i
join case_stats t on t.project_id = %(project_id)s and t.id = i.id
order by t.id <> %(case_id)s
