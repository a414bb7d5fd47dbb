-- compatible: yes
-- The settings of a project as its owners changed them (G-202): a read model. A project without a row has its defaults, and
-- so has a setting that is null.
create table project_settings (
    project_id           text collate "C" not null,
    id                   text collate "C" not null,
    revision             bigint not null,
    accept_public_events boolean,
    changed_by           text not null,
    changed_at           bigint not null,
    primary key (project_id, id)
);
