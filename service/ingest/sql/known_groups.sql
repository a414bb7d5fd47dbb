-- Those of some groups of a project's provider that were met before, with the fingerprints of their errors.
select g.id, g.offered::text
from provider_groups g
where g.project_id = %(project_id)s and g.id = any(%(ids)s)
