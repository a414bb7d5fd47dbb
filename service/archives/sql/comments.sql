-- The comments of members on the cases of a project, by case, oldest first: a JSON object each.
select json_build_object(
    'case_id', n.case_id, 'id', n.id, 'user_id', n.user_id, 'text', n.text, 'commented_at', n.commented_at)::text
from case_comments n
where n.project_id = %(project_id)s
order by n.case_id, n.commented_at, n.id
