-- What the projects of an account have sent in some days, deleted ones included; days without records are left out.
select day, sum(errors)::bigint, sum(analytics)::bigint, sum(deploys)::bigint
from (
    select day, errors, analytics, 0 as deploys from usage_days
    where account_id = %(id)s and day between %(first)s and %(last)s
    union all
    select day, 0, 0, 1 from usage_deploys where account_id = %(id)s and day between %(first)s and %(last)s
) d
group by day
order by day
