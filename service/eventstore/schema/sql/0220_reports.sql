-- compatible: yes
-- Reports of weekly runs: the source that was read, and what was recorded of it. `report_json` is what a runner wrote,
-- as a text that nothing looks into; it is large and seldom read, so it stands beside the state.
create table reports (
    project_id    text   collate "C" not null,
    id            text   collate "C" not null,
    revision      bigint not null,
    run_id        text   collate "C" not null,
    automation_id text   collate "C" not null,
    status        text   collate "C" not null,
    period_start  bigint not null,
    period_end    bigint not null,
    recorded_at   bigint,
    report_json   text,
    state         jsonb  not null,
    primary key (project_id, id)
) with (fillfactor = 60);
create index reports_recorded on reports (project_id, recorded_at, id) where recorded_at is not null;
