-- The deliverable events of a project after a position of the log, ascending, among so many of its events; and the
-- position up to which all were looked at.
with looked as (
    select p.position, p.seq from project_positions p
    where p.project_id = %(project_id)s and p.position > %(after)s
    order by p.position limit %(looked)s
)
select (
        select greatest(%(after)s::bigint,
            case when count(*) = %(looked)s then max(a.position) else (select s.size from log_state s) end)
        from looked a
    ), f.position, f.event_id, f.topic, f.stream_id, f.revision, f.at
from (select) one left join lateral (
    select l.position, e.event_id, e.topic, e.stream_id, e.revision,
        floor(extract(epoch from e.recorded_at))::bigint as at
    from looked l join events e on e.seq = l.seq
    where e.project_id = %(project_id)s and e.topic = any(%(topics)s::text[]) and e.payload is not null
    order by l.position limit %(limit)s
) f on true
order by f.position
