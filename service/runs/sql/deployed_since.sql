-- The first deploy by CI since a moment of each of some cases, in an environment, or in any where that is null.
select m.case_id, d.recorded_at
from unnest(%(case_ids)s::text[], %(moments)s::bigint[]) m(case_id, at)
cross join lateral (
    select recorded_at from deploys
    where project_id = %(project_id)s and recorded_at >= m.at and trusted
        and (%(environment)s::text is null or environment = %(environment)s)
    order by recorded_at limit 1) d
