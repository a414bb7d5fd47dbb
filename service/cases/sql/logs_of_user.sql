-- Records below `error` that name a person, as logs.sql finds those of all.
select l.looked, l.at, l.id, e.looked,
\ir parts/event.sql
from (
    select count(*) as looked, min(k.received_at) as at, (array_agg(k.id order by k.received_at, k.id))[1] as id
    from (
        select e.received_at, e.id from log_events e where
        \ir parts/received_of_user.sql
    ) k) l
left join lateral (
    select e.* from (
        select e.*, row_number() over (order by e.received_at desc, e.id desc) as looked from (
            select * from log_events e where
            \ir parts/received_of_user.sql
        ) e) e
    where
    \ir parts/logs_matching.sql
) e on true
order by e.received_at desc, e.id desc
