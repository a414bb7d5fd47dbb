-- compatible: yes
-- Webhooks, a read model, and the facts beside them: sealed addresses and secrets, outcomes, and the outbox.
create table webhooks (
    project_id    text collate "C" not null,
    id            text collate "C" not null,
    revision      bigint not null,
    origin        text not null,
    events        jsonb not null,
    secret_prefix text not null,
    status        text not null,
    stop_reason   text,
    stopped_at    bigint,
    created_at    bigint not null,
    primary key (project_id, id)
);
create table webhook_targets (
    project_id    text collate "C" not null,
    id            text collate "C" not null,
    url           text,    -- sealed; null: the webhook is deleted
    secret        text,    -- sealed
    former_secret text,    -- sealed
    former_until  bigint,
    description   text,
    primary key (project_id, id)
);
create index webhook_targets_gone on webhook_targets (project_id, id) where url is null;
create table webhook_standings (
    project_id        text collate "C" not null,
    id                text collate "C" not null,
    stage             text not null default 'registered',  -- then tested or delivering
    last_status       integer,
    last_error        text,
    last_delivered_at bigint,
    failing_since     bigint,  -- null: the last attempt succeeded, or there was none
    testing_until     bigint,  -- a test is under way until then
    test_minute       bigint,  -- the minute in which `tests` were begun
    tests             integer not null default 0,
    primary key (project_id, id)
) with (fillfactor = 70);

-- What the reader of the log knows of each webhook at its place: the events after `since` are queued while active.
create table webhook_subscriptions (
    project_id text collate "C" not null,
    id         text collate "C" not null,
    events     jsonb not null,
    active     boolean not null,
    since      bigint not null,
    primary key (project_id, id)
);
-- One row a webhook and event. `due_ms` (server time) is null once nothing is left to do. `epoch` counts the claims: only
-- the latest may record an outcome. The body is fixed at the first attempt.
create table webhook_deliveries (
    project_id      text collate "C" not null,
    webhook_id      text collate "C" not null,
    position        bigint not null,
    id              text collate "C" not null,
    event           text not null,
    subject_id      text collate "C" not null,
    stream_revision bigint not null,
    created_at      bigint not null,
    queued_at       bigint not null,  -- the position at which it was queued, last
    state           text not null default 'open',  -- then delivered, exhausted or stopped
    attempts        integer not null default 0,
    step            integer not null default 0,  -- attempts since it was queued
    due_ms          bigint,
    epoch           bigint not null default 0,
    last_status     integer,
    last_error      text,
    body            text,
    primary key (project_id, webhook_id, position)
) with (fillfactor = 70);
create unique index webhook_deliveries_id on webhook_deliveries (project_id, id);
create index webhook_deliveries_due on webhook_deliveries (project_id, webhook_id, due_ms, position)
    where due_ms is not null;
create index webhook_deliveries_first on webhook_deliveries (project_id, webhook_id, subject_id, position)
    where due_ms is not null and attempts = 0;
create index webhook_deliveries_created on webhook_deliveries (created_at);

-- No webhook is older than this: the reader begins at the end of the log.
insert into checkpoints (name, position) select 'outbox', size from log_state;

-- What a command looks up of them by the stream of a project, over a function, which finds its table when it runs (a
-- rebuild swaps tables): functions/ says what it does.
create function standing_webhooks(project text) returns bigint language sql stable as $body$ select 0::bigint $body$;
create view webhook_counts as
select h.project_id, h.stream_id as id, standing_webhooks(project => h.project_id) as standing
from stream_heads h where h.kind = 'proj';
