-- compatible: yes
-- An index behind each filter of each list, in the order of the list: a page reads about as many rows as it shows,
-- however many there are, and nobody's list keeps a connection for long.

-- The open ones are counted and looked for by the same index.
create index cases_status on cases (project_id, status, opened_at, id);
drop index cases_open;
-- As it is shown: a case of what was too new for cases of its own is an open one to its readers.
create index cases_shown on cases (project_id, replace(status, 'overflow', 'open'), opened_at, id);

-- `since` is found by the hour. The exact time changes with every error and an index over it would make each of these
-- updates write to all indexes of the row.
alter table case_stats add column last_seen_hour bigint generated always as (last_seen_at / 3600) stored;
create index case_stats_seen on case_stats (project_id, last_seen_hour);

create function case_marks(project text, environments text[], releases text[]) returns text[]
language sql immutable parallel safe as $body$
    select array(
        select project || ' environment ' || e from unnest(environments) e
        union all select project || ' release ' || r from unnest(releases) r)
$body$;
-- Entries are made with the row and not later: a list of pending ones would be worked off by some unlucky writer.
create index case_stats_marks on case_stats using gin (case_marks(project_id, environments, releases))
    with (fastupdate = off);

create index deploys_environment on deploys (project_id, environment, recorded_at, id);

create index trigger_receipts_automation on trigger_receipts (project_id, automation_id, issued_at, id);
create index trigger_receipts_status on trigger_receipts (project_id, status, issued_at, id);

create index automation_runs_automation on automation_runs (project_id, automation_id, started_at, id);
create index automation_runs_outcome on automation_runs (project_id, outcome, started_at, id)
    where not live;
create index automation_runs_under_way on automation_runs (project_id, started_at, id) where live;

create index approvals_status on approvals (project_id, status, requested_at, id);
drop index approvals_of_run;
create index approvals_of_run on approvals (project_id, run_id, requested_at, id);

create index credentials_newest on credentials (project_id, created_at, id);
create index api_keys_newest on api_keys (project_id, created_at, id);
