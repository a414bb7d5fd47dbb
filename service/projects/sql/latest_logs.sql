-- The newest record of each level below `error`, newest first, among so many of any level received at `since` or later.
select level, message, received_at from (
    select distinct on (e.level) e.level, left(e.message, 200) as message, e.received_at, e.id from (
        select * from log_events e where e.project_id = %(project_id)s and e.received_at >= %(since)s
        order by e.received_at desc, e.id desc limit %(looked)s
    ) e
    where e.case_id is null
    order by e.level, e.received_at desc, e.id desc
) e
order by e.received_at desc, e.id desc
