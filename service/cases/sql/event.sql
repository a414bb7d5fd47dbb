-- One error by its key. It is planned for its values: only its day is opened.
select
\ir parts/event.sql
from log_events e
where e.project_id = %(project_id)s and e.received_at = %(received_at)s and e.id = %(id)s
