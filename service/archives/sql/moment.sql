-- The time, the size of the log, and how many events a project has, those without a position too.
select (select service_seconds()), s.size, (
    select coalesce(sum(h.revision), 0)::bigint from stream_heads h where h.project_id = %(project_id)s)
from log_state s
