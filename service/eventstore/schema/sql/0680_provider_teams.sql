-- compatible: yes
-- Teams at the analytics provider, a read model, and what the provider last said of each, a fact beside it.
create table provider_teams (
    project_id      text collate "C" not null,
    id              text collate "C" not null,
    revision        bigint not null,
    status          text not null,
    attempt_until   bigint,  -- an attempt is under way until then; null: none is
    doubt_until     bigint,  -- until then a team may have been created that no look-up has shown
    team_id         bigint,
    token           text,    -- the public one
    host            text,
    provisioned_at  bigint,
    replay_enabled  boolean,
    sample_rate     text,
    mask_all_inputs boolean,
    configured_at   bigint,
    replay_revision bigint,
    primary key (project_id, id)
);
create table provider_sightings (
    project_id         text collate "C" not null,
    id                 text collate "C" not null,
    asked_at           bigint not null,
    confirmed_revision bigint,
    last_recording_at  bigint,
    primary key (project_id, id)
) with (fillfactor = 70);
