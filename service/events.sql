-- of_project --
-- The events of a project after a position of the log, ascending, so many and of about so many bytes; beside the size
-- of the log, and how many there are within the number. The first event comes whatever its size.
with looked as (
    select p.position, p.seq from project_positions p
    where p.project_id = %(project_id)s and p.position > %(after)s
    order by p.position limit %(limit)s
)
select (select s.size from log_state s), f.matched,
\include columns
from (select) one left join lateral (
    select l.position, e.*, count(*) over () as matched,
        sum(
\include guess
        ) over (order by l.position rows unbounded preceding) -
\include guess
        as before
    from looked l join events e on e.seq = l.seq
    where e.project_id = %(project_id)s
) f on f.before < %(bytes)s
order by f.position

-- part columns --
-- An event with its place in the log, as StoredEvent has it.
f.position, f.project_id, f.stream_id, f.revision, f.kind, f.topic, f.payload::text, f.event_id, f.command_id,
f.actor_kind, f.actor_id, f.request_id, f.correlation_id, f.causation_id, f.recorded_at, f.salt, f.payload_hash,
f.leaf, f.chain

-- part guess --
-- About how many bytes the payload of an event has as text, without a look into a compressed one: it may be 1 to 80
-- times its size in the table.
coalesce(pg_column_size(e.payload) * case when pg_column_compression(e.payload) is null then 1 else 16 end, 0)

-- of_project_before --
-- The last events of a project before a position of the log, descending, so many and of about so many bytes; beside the
-- size of the log, and how many there are within the number. The last event comes whatever its size.
with looked as (
    select p.position, p.seq from project_positions p
    where p.project_id = %(project_id)s and p.position < %(before)s
    order by p.position desc limit %(limit)s
)
select (select s.size from log_state s), f.matched,
\include columns
from (select) one left join lateral (
    select l.position, e.*, count(*) over () as matched,
        sum(
\include guess
        ) over (order by l.position desc rows unbounded preceding) -
\include guess
        as behind
    from looked l join events e on e.seq = l.seq
    where e.project_id = %(project_id)s
) f on f.behind < %(bytes)s
order by f.position desc

-- of_stream --
-- The numbered events of a stream after a revision, ascending, of about so many bytes; beside the size of the log.
select (select s.size from log_state s),
\include columns
from (select) one left join lateral (
    select i.position, e.*,
        sum(
\include guess
        ) over (order by e.revision rows unbounded preceding) -
\include guess
        as before
    from events e join log_index i on i.seq = e.seq
    where e.project_id = %(project_id)s and e.stream_id = %(stream_id)s
        and e.revision > %(revision)s and e.revision <= %(revision)s + %(limit)s
) f on f.before < %(bytes)s
order by f.revision

-- of_stream_until --
-- The last numbered events of a stream up to a revision, descending, of about so many bytes; beside the size of the
-- log.
select (select s.size from log_state s),
\include columns
from (select) one left join lateral (
    select i.position, e.*,
        sum(
\include guess
        ) over (order by e.revision desc rows unbounded preceding) -
\include guess
        as behind
    from events e join log_index i on i.seq = e.seq
    where e.project_id = %(project_id)s and e.stream_id = %(stream_id)s
        and e.revision > %(revision)s::bigint - %(limit)s::bigint and e.revision <= %(revision)s
) f on f.behind < %(bytes)s
order by f.revision desc

-- at_positions --
-- Events of a project at positions of the log, ascending.
select
\include columns
from (
    select i.position, e.* from log_index i join events e on e.seq = i.seq
    where i.position = any(%(positions)s::bigint[]) and e.project_id = %(project_id)s
) f
order by f.position

-- revision_after --
-- The last revision of a stream at or before a position of the log. Positions rise with revisions, so it is found by
-- halving.
with recursive halved(low, high) as (
    select 0::bigint, coalesce((
        select h.revision from stream_heads h where h.project_id = %(project_id)s and h.stream_id = %(stream_id)s
    ), 0)
    union all
    select case when m.position <= %(after)s then m.middle else h.low end,
        case when m.position <= %(after)s then h.high else m.middle - 1 end
    from halved h cross join lateral (
        select (h.low + h.high + 1) / 2 as middle, (
            select i.position from events e join log_index i on i.seq = e.seq
            where e.project_id = %(project_id)s and e.stream_id = %(stream_id)s
                and e.revision = (h.low + h.high + 1) / 2
        ) as position
    ) m
    where h.low < h.high
)
select h.low from halved h where h.low >= h.high limit 1

-- stream_of_person --
-- The project of a stream, among those that a person is a member or an auditor of.
select t.project_id from memberships t
join stream_heads h on h.project_id = t.project_id and h.stream_id = %(stream_id)s
where t.user_id = %(user_id)s
union all
select a.project_id from auditors a
join stream_heads h on h.project_id = a.project_id and h.stream_id = %(stream_id)s
where a.user_id = %(user_id)s
order by project_id limit 1
