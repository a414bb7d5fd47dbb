-- The last events of a project before a position of the log, descending, among so many positions and of about so many
-- bytes; beside the first position looked at, the size of the log, and how many match. The last event comes whatever
-- its size.
with looked as (
    select i.position, i.seq from log_index i where i.position < %(before)s order by i.position desc limit %(looked)s
)
select (select min(a.position) from looked a), (select s.size from log_state s), f.matched,
\ir parts/columns.sql
from (select) one left join lateral (
    select l.position, e.*, count(*) over () as matched,
        sum(
\ir parts/guess.sql
        ) over (order by l.position desc rows unbounded preceding) -
\ir parts/guess.sql
        as behind
    from looked l join events e on e.seq = l.seq
    where e.project_id = %(project_id)s
) f on f.behind < %(bytes)s
order by f.position desc limit %(limit)s
