-- The events of a project after a position of the log, ascending, among so many positions and of about so many bytes;
-- beside the last position looked at, the size of the log, and how many match. The first event comes whatever its size.
with looked as (
    select i.position, i.seq from log_index i where i.position > %(after)s order by i.position limit %(looked)s
)
select (select max(a.position) from looked a), (select s.size from log_state s), f.matched,
\ir parts/columns.sql
from (select) one left join lateral (
    select l.position, e.*, count(*) over () as matched,
        sum(
\ir parts/guess.sql
        ) over (order by l.position rows unbounded preceding) -
\ir parts/guess.sql
        as before
    from looked l join events e on e.seq = l.seq
    where e.project_id = %(project_id)s
) f on f.before < %(bytes)s
order by f.position limit %(limit)s
