-- Those of some markers that are of another project's session.
select m.marker
from unnest(%(markers)s::text[]) m(marker)
where exists (
    select from onboarding o
    where (o.runtime_marker_sha256 = m.marker or o.ci_marker_sha256 = m.marker) and o.project_id <> %(project_id)s)
