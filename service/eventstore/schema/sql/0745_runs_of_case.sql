-- compatible: yes
-- The runs of a case, newest first: for its page and for the list of runs.
create index automation_runs_case on automation_runs (project_id, case_id, started_at, id) where case_id is not null;
