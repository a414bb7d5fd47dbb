-- A page of receipts by the time they were issued, newest first: of an automation, and of those that are recorded as
-- one of some statuses, where these are not null. Each status is a search of its own, in the order of an index.
select
\ir parts/receipt_bundle.sql
::text
from (
    (select * from trigger_receipts
    where %(recorded)s::text[] is null and project_id = %(project_id)s and (issued_at, id) < (%(at)s, %(id)s)
        and (%(automation_id)s::text is null or automation_id = %(automation_id)s)
    order by issued_at desc, id desc limit %(limit)s)
    union all
    (select o.* from unnest(%(recorded)s::text[]) w(status)
    cross join lateral (
        select * from trigger_receipts x
        where x.project_id = %(project_id)s and x.status = w.status and (x.issued_at, x.id) < (%(at)s, %(id)s)
            and (%(automation_id)s::text is null or x.automation_id = %(automation_id)s)
        order by x.issued_at desc, x.id desc limit %(limit)s) o)
) t
order by t.issued_at desc, t.id desc
limit %(limit)s
