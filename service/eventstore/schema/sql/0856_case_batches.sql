-- compatible: yes
-- Acts on many cases that were carried out to their end, a read model.
create table case_batches (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,
    revision   bigint not null,
    action     text   not null,
    assignee   text,
    cases      bigint not null,
    moved      bigint not null,
    ended_at   bigint not null,
    primary key (project_id, id)
);
