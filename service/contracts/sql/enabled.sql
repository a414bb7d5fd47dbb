-- Every project with an enabled contract, but for those that are being deleted: in these nothing can begin any more.
select k.project_id
from automation_contracts k
where k.status = 'enabled' and exists (
    select from projects p where p.project_id = k.project_id and p.id = k.project_id and p.status = 'active')
order by k.project_id
