-- compatible: yes
-- Why cases were offered, started on or passed over, and when it was looked. Facts outside streams: kept for as long as
-- the plan keeps telemetry, written when an answer changes. Times are epoch seconds of service_now().

create table automation_decisions (
    project_id    text   collate "C" not null,
    id            text   collate "C" not null,
    seq           bigint generated always as identity,  -- the order of the records; a second holds many
    automation_id text   collate "C" not null,
    case_id       text   collate "C" not null,
    case_revision bigint not null,
    stage         text   collate "C" not null,
    look          text   collate "C" not null,
    asked_by      text   collate "C" not null,
    code          text   collate "C",                   -- why it was passed over; null: it passed
    outcome       text   collate "C" not null,          -- verdict, revision and results, to compare with the next look
    receipt_id    text   collate "C",
    policy_sha256 text   collate "C" not null,
    decided_at    bigint not null,
    inputs        jsonb  not null,
    thresholds    jsonb  not null,
    checks        jsonb  not null,
    age_seconds   bigint,
    material      boolean not null,
    primary key (project_id, id)
);
create index automation_decisions_newest on automation_decisions (project_id, seq);
-- The last record of each case that is looked at. No other index has this order: the planner of a young database would
-- walk through a whole automation's.
create index automation_decisions_last on automation_decisions (project_id, case_id, automation_id, (-seq));
create index automation_decisions_of_automation on automation_decisions (project_id, automation_id, seq);
create index automation_decisions_passed on automation_decisions (project_id, seq) where code is null;

-- One row for all looks of one kind in an hour: the seconds into it, in order, each once.
create table automation_looks (
    project_id    text   collate "C" not null,
    automation_id text   collate "C" not null,
    hour          bigint not null,  -- epoch seconds of its beginning
    look          text   collate "C" not null,
    asked_by      text   collate "C" not null,
    seconds       smallint[] not null,
    primary key (project_id, automation_id, hour, look, asked_by)
) with (fillfactor = 60);

-- The decisions behind the receipts that there are: until now they were shown from these.
insert into automation_decisions (project_id, id, automation_id, case_id, case_revision, stage, look, asked_by, code,
    outcome, receipt_id, policy_sha256, decided_at, inputs, thresholds, checks, age_seconds, material)
select t.project_id, 'dec_' || left(md5(t.id || ' ' || d.stage), 26), t.automation_id, t.case_id,
    (d.decision #>> '{inputs,revision}')::bigint, d.stage,
    case when d.stage = 'start' then 'start' when e.actor_kind = 'system' then 'sweep' else 'issue' end,
    e.actor_kind, case when (d.decision ->> 'passed')::boolean then null else 'materiality_not_met' end,
    'receipt ' || d.stage, t.id, t.state ->> 'policy_sha256', (d.decision ->> 'decided_at')::bigint,
    d.decision -> 'inputs', d.decision -> 'thresholds', d.decision -> 'checks',
    (d.decision ->> 'age_seconds')::bigint, (d.decision ->> 'passed')::boolean
from trigger_receipts t
cross join lateral (values ('issue', t.state -> 'issued_materiality', 'trigger_receipt.issued.v1'),
    ('start', t.state -> 'final_materiality', null)) d(stage, decision, topic)
join events e on e.project_id = t.project_id and e.stream_id = t.id
    and (e.topic = d.topic or (d.topic is null and e.topic in
        ('trigger_receipt.consumed.v1', 'trigger_receipt.invalidated.v1')))
where jsonb_typeof(d.decision) = 'object'
order by (d.decision ->> 'decided_at')::bigint, t.id, d.stage;
