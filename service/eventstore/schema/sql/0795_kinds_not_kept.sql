-- compatible: yes
-- Telemetry that a door answered and did not keep, or refused for what it is: how much of each kind a project sent on a
-- day. Kinds have names of ours, so that a project has few rows, whatever is sent.
create table kinds_not_kept (
    project_id text   collate "C" not null,
    day        bigint not null,
    protocol   text   collate "C" not null,
    kind       text   collate "C" not null,
    outcome    text   collate "C" not null,
    amount     bigint not null,
    last_at    bigint not null,
    primary key (project_id, day, protocol, kind, outcome)
) with (fillfactor = 50);
create index kinds_not_kept_day on kinds_not_kept (day);
