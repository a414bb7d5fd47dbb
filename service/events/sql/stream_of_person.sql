-- The project of a stream, among those that a person is a member of.
select m.project_id from memberships m
join stream_heads h on h.project_id = m.project_id and h.stream_id = %(stream_id)s
where m.user_id = %(user_id)s
order by m.project_id limit 1
