-- Read models of automation: receipts, claims with the lanes of their cases, runs, approvals, grants, ledgers.
--
-- `state` holds the folded state as recorded. What time, a pause or a moved case has made of it since is worked out
-- when it is read, so the status columns here only help to find rows. Times are epoch seconds of service_now().

create table trigger_receipts (
    project_id    text   collate "C" not null,
    id            text   collate "C" not null,
    revision      bigint not null,
    automation_id text   collate "C" not null,
    kind          text   collate "C" not null,
    status        text   collate "C" not null,
    case_id       text   collate "C",
    claim_id      text   collate "C",
    run_id        text   collate "C",
    issued_at     bigint not null,
    expires_at    bigint not null,
    state         jsonb  not null,
    primary key (project_id, id)
) with (fillfactor = 60);
create index trigger_receipts_newest on trigger_receipts (project_id, issued_at, id);
create index trigger_receipts_id on trigger_receipts (id);
create index trigger_receipts_waiting on trigger_receipts (project_id, automation_id)
    where status in ('issued', 'claimed');
create index trigger_receipts_open on trigger_receipts (expires_at, id) where status in ('issued', 'claimed');

-- The title of the case at issue: telemetry, so a fact and not part of any event.
create table trigger_evidence (
    project_id text collate "C" not null,
    id         text collate "C" not null,
    title      text not null,
    primary key (project_id, id)
);

create table claims (
    project_id       text   collate "C" not null,
    id               text   collate "C" not null,
    revision         bigint not null,
    case_id          text   collate "C" not null,
    automation_id    text   collate "C" not null,
    runner_id        text   collate "C" not null,
    receipt_id       text   collate "C" not null,
    run_id           text   collate "C",
    status           text   collate "C" not null,
    claimed_at       bigint not null,
    lease_expires_at bigint not null,
    state            jsonb  not null,
    primary key (project_id, id)
) with (fillfactor = 60);
create index claims_of_case on claims (project_id, case_id);
create index claims_active on claims (lease_expires_at, id) where status = 'active';

create table leases (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,
    revision   bigint not null,
    case_id    text   collate "C" not null,
    receipt_id text   collate "C",
    claim_id   text   collate "C",
    run_id     text   collate "C",
    state      jsonb  not null,
    primary key (project_id, id)
) with (fillfactor = 60);
create index leases_of_case on leases (project_id, case_id);

create table automation_runs (
    project_id    text    collate "C" not null,
    id            text    collate "C" not null,
    revision      bigint  not null,
    automation_id text    collate "C" not null,
    runner_id     text    collate "C" not null,
    receipt_id    text    collate "C" not null,
    claim_id      text    collate "C",
    case_id       text    collate "C",
    phase         text    collate "C" not null,
    outcome       text    collate "C",
    live          boolean not null,
    proven_commit text    collate "C",
    started_at    bigint  not null,
    deadline_at   bigint  not null,
    state         jsonb   not null,
    primary key (project_id, id)
) with (fillfactor = 60);
create index automation_runs_newest on automation_runs (project_id, started_at, id);
create index automation_runs_id on automation_runs (id);
create index automation_runs_live on automation_runs (deadline_at, id) where live;
create index automation_runs_commit on automation_runs (project_id, proven_commit) where proven_commit is not null;

create table approvals (
    project_id    text   collate "C" not null,
    id            text   collate "C" not null,
    revision      bigint not null,
    run_id        text   collate "C" not null,
    automation_id text   collate "C" not null,
    status        text   collate "C" not null,
    requested_at  bigint not null,
    expires_at    bigint not null,
    state         jsonb  not null,
    primary key (project_id, id)
) with (fillfactor = 60);
create index approvals_newest on approvals (project_id, requested_at, id);
create index approvals_id on approvals (id);
create index approvals_of_run on approvals (project_id, run_id);
create index approvals_pending on approvals (expires_at, id) where status = 'pending';

create table grants (
    project_id    text   collate "C" not null,
    id            text   collate "C" not null,
    revision      bigint not null,
    run_id        text   collate "C" not null,
    automation_id text   collate "C" not null,
    kind          text   collate "C" not null,
    status        text   collate "C" not null,
    authorized_at bigint not null,
    expires_at    bigint not null,
    state         jsonb  not null,
    primary key (project_id, id)
) with (fillfactor = 60);
create index grants_of_run on grants (project_id, run_id);
create index grants_open on grants (expires_at, id) where status in ('authorized', 'consumed');

create table ledgers (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,
    revision   bigint not null,
    clock      bigint not null,
    runs       jsonb  not null,
    prs        jsonb  not null,
    primary key (project_id, id)
) with (fillfactor = 60);
