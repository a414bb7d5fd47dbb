-- The last numbered events of a stream up to a revision, descending, of about so many bytes; beside the size of the
-- log.
select (select s.size from log_state s),
\ir parts/columns.sql
from (select) one left join lateral (
    select i.position, e.*,
        sum(
\ir parts/guess.sql
        ) over (order by e.revision desc rows unbounded preceding) -
\ir parts/guess.sql
        as behind
    from events e join log_index i on i.seq = e.seq
    where e.project_id = %(project_id)s and e.stream_id = %(stream_id)s
        and e.revision > %(revision)s::bigint - %(limit)s::bigint and e.revision <= %(revision)s
) f on f.behind < %(bytes)s
order by f.revision desc
