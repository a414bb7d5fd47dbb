-- The people of a project of whom a product told something, with their names: a JSON object each.
select json_build_object(
    'id', p.id, 'names', coalesce((
        select json_agg(n.name order by n.name) from person_names n
        where n.project_id = p.project_id and n.person = p.id), json_build_array(p.id)),
    'identified', p.identified, 'properties', p.properties, 'links_refused', p.refused, 'told_at', p.told_at)::text
from telemetry_people p
where p.project_id = %(project_id)s
order by p.id
