-- What a project has sent since a day that is not kept, by kind. Records without a level are.
select k.protocol, k.kind, k.outcome, sum(k.amount)::bigint, max(k.last_at)
from kinds_not_kept k
where k.project_id = %(project_id)s and k.day >= %(since)s and k.outcome <> 'without_level'
group by k.protocol, k.kind, k.outcome
order by k.protocol, k.kind, k.outcome
