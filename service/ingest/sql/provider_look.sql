-- Where looks at a project's provider have come to, and the uuids of the overlap in hex.
select row_to_json(l)::text, coalesce((
    select string_agg(encode(u.uuids, 'hex'), '') from provider_uuids u where u.project_id = l.project_id), '')
from provider_looks l
where l.project_id = %(project_id)s and l.id = %(project_id)s
