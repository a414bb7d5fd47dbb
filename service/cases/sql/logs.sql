-- Records below `error` after a place, newest first, among so many of any level. Each row tells how many were looked
-- at, the last of them, and how many up to this record: there is one row also without a record. It is planned for its
-- values: only the days between are opened.
select l.looked, l.at, l.id, e.looked,
\ir parts/event.sql
from (
    select count(*) as looked, min(k.received_at) as at, (array_agg(k.id order by k.received_at, k.id))[1] as id
    from (
        select e.received_at, e.id from log_events e where
        \ir parts/received.sql
    ) k) l
left join lateral (
    select e.* from (
        select e.*, row_number() over (order by e.received_at desc, e.id desc) as looked from (
            select * from log_events e where
            \ir parts/received.sql
        ) e) e
    where
    \ir parts/logs_matching.sql
) e on true
order by e.received_at desc, e.id desc
