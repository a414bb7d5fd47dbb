-- The automation contract of each project: the read model that GET, PUT, enable, pause and disable answer with. Its
-- automations hold canonical JSON texts, so that a hash recorded at saving still names the bytes shown later.

create table automation_contracts (
    project_id      text collate "C" not null,
    id              text collate "C" not null,
    revision        bigint not null,
    status          text not null,
    state_revision  bigint not null,
    policy_version  bigint not null,
    contract_sha256 text not null,
    automations     jsonb not null,
    enable_receipt  jsonb,
    paused_at       bigint,
    created_at      bigint not null,
    updated_at      bigint not null,
    updated_by      text not null,
    primary key (project_id, id)
);
