-- Which erasures of people, by their place in a list, a database does not know: the project is there, and no erasure of
-- the name has been fenced since.
select l.place
from unnest(%(places)s::int[], %(projects)s::text[], %(streams)s::text[], %(untils)s::bigint[])
    as l(place, project_id, stream_id, until)
join projects p on p.project_id = l.project_id and p.id = l.project_id and p.status = 'active'
left join erasures e on e.project_id = l.project_id and e.id = l.stream_id
where e.id is null or e.fenced_at < l.until
order by l.place
