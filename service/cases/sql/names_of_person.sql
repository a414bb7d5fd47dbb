-- The names of whoever has a name, that which the person is called by first; and what a product told of the person: its
-- properties, whether it is identified, and how many links were refused. Nothing of somebody who was never told of.
select p.id, coalesce((
        select array_agg(n.name order by n.name <> p.id, n.name) from person_names n
        where n.project_id = %(project_id)s and n.person = p.id), array[p.id]),
    t.properties, coalesce(t.identified, false), coalesce(t.refused, 0)
from (
    select coalesce((
        select n.person from person_names n
        where n.project_id = %(project_id)s and n.name = %(person)s), %(person)s) as id
) p
left join telemetry_people t on t.project_id = %(project_id)s and t.id = p.id
