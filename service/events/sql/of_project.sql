-- The events of a project after a position of the log, ascending, so many and of about so many bytes; beside the size
-- of the log, and how many there are within the number. The first event comes whatever its size.
with looked as (
    select p.position, p.seq from project_positions p
    where p.project_id = %(project_id)s and p.position > %(after)s
    order by p.position limit %(limit)s
)
select (select s.size from log_state s), f.matched,
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
order by f.position
