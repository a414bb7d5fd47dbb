-- compatible: yes
-- When a sweep last took up what it takes in turn. A row that is gone only lets its object come first.
create table sweep_turns (
    project_id    text collate "C" not null,
    step          text collate "C" not null,
    id            text collate "C" not null,
    considered_at timestamptz not null,
    primary key (project_id, step, id)
) with (fillfactor = 50);

create index automation_contracts_enabled on automation_contracts (project_id) where status = 'enabled';
create index automation_runs_verifying on automation_runs (project_id, id) where live and outcome = 'verifying';
