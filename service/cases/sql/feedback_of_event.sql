-- What people wrote about an error, by the id that its SDK gave it: the newest.
select
\ir parts/written.sql
from feedback_reports f
where f.project_id = %(project_id)s and f.event_key = %(event_key)s
order by f.received_at desc, f.id desc
limit %(most)s
