-- How far a deletion has come.
select phase from deletions where project_id = %(id)s and id = %(id)s
