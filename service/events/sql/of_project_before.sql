-- The last events of a project before a position of the log, descending, so many and of about so many bytes; beside the
-- size of the log, and how many there are within the number. The last event comes whatever its size.
with looked as (
    select p.position, p.seq from project_positions p
    where p.project_id = %(project_id)s and p.position < %(before)s
    order by p.position desc limit %(limit)s
)
select (select s.size from log_state s), f.matched,
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
order by f.position desc
