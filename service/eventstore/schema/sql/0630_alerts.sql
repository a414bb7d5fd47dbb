-- compatible: yes
-- Alerts, a read model, and the latest look at each, a fact.
create table alerts (
    project_id       text collate "C" not null,
    id               text collate "C" not null,
    revision         bigint not null,
    name             text,
    blueprint_id     text collate "C" not null,
    params           text not null,  -- canonical JSON
    threshold_column text not null,
    threshold_op     text not null,
    threshold_value  text not null,  -- a decimal
    row_match        text not null,
    status           text not null,
    created_at       bigint not null,
    primary key (project_id, id)
);
create table alert_looks (
    project_id   text collate "C" not null,
    id           text collate "C" not null,
    due_at       bigint,           -- null: the alert is deleted
    asked_us     bigint not null,  -- microseconds since the epoch; 0: nobody has looked yet
    evaluated_at bigint,
    value        text,
    primary key (project_id, id)
) with (fillfactor = 70);
create index alert_looks_due on alert_looks (due_at, project_id);

-- What a command looks up of them by the stream of a project, over a function, which finds its table when it runs (a
-- rebuild swaps tables): functions/ says what it does.
create function standing_alerts(project text) returns bigint language sql stable as $body$ select 0::bigint $body$;
create view alert_counts as
select h.project_id, h.stream_id as id, standing_alerts(project => h.project_id) as standing
from stream_heads h where h.kind = 'proj';
