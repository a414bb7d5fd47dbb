-- compatible: yes
-- Callers' own queries go by the time of a record (G-193), beside that of its receipt.
create or replace view queried_events with (security_barrier) as
select e.id, e.event, e.distinct_id, e.received_at, e.properties, coalesce(n.person, e.distinct_id) as person,
    coalesce(e.occurred_at, e.received_at) as occurred_at
from analytics_events e
left join person_names n on n.project_id = e.project_id and n.name = e.distinct_id
where e.project_id = nullif(current_setting('service.project_id', true), '');

create or replace view queried_errors with (security_barrier) as
select e.id, e.case_id, e.fingerprint, e.level, e.environment, e.release, e.user_id, e.received_at, e.tags,
    coalesce(n.person, e.user_id) as person, coalesce(e.occurred_at, e.received_at) as occurred_at
from log_events e
left join person_names n on n.project_id = e.project_id and n.name = e.user_id
where e.project_id = nullif(current_setting('service.project_id', true), '') and e.case_id is not null;
