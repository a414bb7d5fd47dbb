-- Every active project with a connected provider, those first whose exceptions were read the longest ago.
select c.project_id
from (select distinct t.project_id from provider_connections t where t.status = 'connected') c
join projects p on p.project_id = c.project_id and p.id = c.project_id and p.status = 'active'
left join provider_looks l on l.project_id = c.project_id and l.id = c.project_id
order by l.read_to nulls first, c.project_id
