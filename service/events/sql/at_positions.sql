-- Events of a project at positions of the log, ascending.
select
\ir parts/columns.sql
from (
    select i.position, e.* from log_index i join events e on e.seq = i.seq
    where i.position = any(%(positions)s::bigint[]) and e.project_id = %(project_id)s
) f
order by f.position
