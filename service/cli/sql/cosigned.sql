-- The newest cosigned checkpoints of an origin with all their cosignatures, for `service doctor`.
select s.size, c.note || string_agg(s.lines, '' order by s.witness),
    extract(epoch from clock_timestamp() - max(s.cosigned_at))::float8
from log_cosignatures s
join log_checkpoints c on c.origin = s.origin and c.size = s.size
where s.origin = %(origin)s and s.size in (
    select size from log_cosignatures where origin = %(origin)s order by size desc limit 60)
group by s.size, c.note
order by s.size desc
