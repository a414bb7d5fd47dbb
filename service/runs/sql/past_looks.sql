-- The looks since an hour.
select k.automation_id, k.hour, k.look, k.asked_by, k.seconds
from automation_looks k
where k.project_id = %(project_id)s and k.hour >= %(since)s
order by k.hour, k.automation_id, k.look, k.asked_by
