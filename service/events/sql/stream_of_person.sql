-- The project of a stream, among those that a person is a member or an auditor of.
select t.project_id from memberships t
join stream_heads h on h.project_id = t.project_id and h.stream_id = %(stream_id)s
where t.user_id = %(user_id)s
union all
select a.project_id from auditors a
join stream_heads h on h.project_id = a.project_id and h.stream_id = %(stream_id)s
where a.user_id = %(user_id)s
order by project_id limit 1
