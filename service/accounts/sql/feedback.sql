-- The latest feedback of everybody, for an operator: by the last time that each was sent.
select row_to_json(f)::text from feedback f order by f.last_at desc, f.project_id desc, f.id desc limit %(limit)s
