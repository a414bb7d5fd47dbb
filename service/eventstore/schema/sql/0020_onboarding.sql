-- Onboarding: read models of plans, signal maps and provider connections, folded from their streams, and beside them
-- the sealed grants, which no event holds. Of a proof marker only its SHA-256 (hex) is here.

create table onboarding (
    project_id                     text collate "C" not null,
    id                             text collate "C" not null,
    revision                       bigint not null,
    status                         text not null,
    state_revision                 bigint not null,
    plan                           jsonb not null,
    plan_sha256                    text not null,
    updated_at                     bigint not null,
    approved_at                    bigint,
    proof_session_id               text collate "C",
    implementation_source_snapshot jsonb,
    runtime_marker_sha256          text collate "C",
    ci_marker_sha256               text collate "C",
    started_at                     bigint,
    expires_at                     bigint,
    receipt                        jsonb,
    primary key (project_id, id)
);
-- Whose marker is this? Asked over all projects, for markers that are not the asking session's own.
create index onboarding_runtime_marker on onboarding (runtime_marker_sha256) where runtime_marker_sha256 is not null;
create index onboarding_ci_marker on onboarding (ci_marker_sha256) where ci_marker_sha256 is not null;

create table signal_maps (
    project_id  text collate "C" not null,
    id          text collate "C" not null,
    revision    bigint not null,
    plan        jsonb not null,
    plan_sha256 text not null,
    recorded_at bigint not null,
    receipt     jsonb,
    primary key (project_id, id)
);

create table provider_connections (
    project_id          text collate "C" not null,
    id                  text collate "C" not null,
    revision            bigint not null,
    status              text not null,
    host                text not null,
    provider_project_id bigint,
    scopes              jsonb not null,
    started_at          bigint not null,
    expires_at          bigint not null,
    connected_at        bigint,
    reason              text,
    primary key (project_id, id)
);
create index provider_connections_id on provider_connections (id);

-- Facts outside streams: a rebuild of the tables above neither reads nor changes them.

create table provider_grants (
    project_id text collate "C" not null,
    id         text collate "C" not null,  -- the connection
    generation bigint not null,            -- how often it was replaced: two refreshers must not overwrite each other
    sealed     text,                       -- device code while pending, tokens once connected; null when over
    primary key (project_id, id)
);
