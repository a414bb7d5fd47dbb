-- compatible: yes
-- Installs, a read model.
create table installs (
    project_id   text collate "C" not null,
    id           text collate "C" not null,
    revision     bigint not null,
    status       text not null,
    updated_at   bigint not null,
    map_revision bigint not null,  -- of the signal map that the latest report or verdict is about; 0: none
    reported_on  bigint not null,  -- of the one that the latest report is about
    reports      bigint not null,
    reported_at  bigint,
    verified_at  bigint,
    primary key (project_id, id)
);
