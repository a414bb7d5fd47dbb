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
