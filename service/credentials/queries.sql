-- newest --
-- A page of the credentials of a project with their last use, newest first.
select row_to_json(t)::text, u.last_used_at
from credentials t left join credential_uses u using (project_id, id)
where t.project_id = %(project_id)s and (t.created_at, t.id) < (%(at)s, %(id)s)
order by t.created_at desc, t.id desc
limit %(limit)s

-- exchanged --
-- A page of the exchanged credentials of a project, newest first, each with whether its binding is in force.
select row_to_json(t)::text, exists (
    select from ci_bindings b cross join jsonb_array_elements(b.bindings) e(binding)
    where b.project_id = t.project_id and e.binding ->> 'id' = t.binding_id)
from exchanged_credentials t
where t.project_id = %(project_id)s and (t.created_at, t.id) < (%(at)s, %(id)s)
order by t.created_at desc, t.id desc
limit %(limit)s

-- live_by_binding --
-- The live exchanged credentials of a project, counted by binding. All live equally long.
select t.binding_id, count(*)
from exchanged_credentials t
where t.project_id = %(project_id)s and t.created_at > (select service_seconds()) - %(lifetime)s
group by t.binding_id
