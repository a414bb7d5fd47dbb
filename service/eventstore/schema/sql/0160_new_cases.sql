-- compatible: yes
-- How many cases errors have opened in an hour: one row for each project, of the latest hour in which one was new. A
-- flush that may open a case locks the row before it looks.
create table case_rates (
    project_id text   collate "C" primary key,
    hour       bigint not null,  -- epoch of its start
    opened     bigint not null
) with (fillfactor = 50);
create index cases_overflow on cases (project_id) where status = 'overflow';

-- What was hidden of a project's telemetry, by kind: {"name": 3, "jwt": 1}. The sum is `scrubbed`.
alter table usage_days add column scrubbed_kinds jsonb not null default '{}';
