-- compatible: yes
-- Saved views of cases, a read model: one row a project.
create table case_views (
    project_id text collate "C" not null,
    id         text collate "C" not null,
    revision   bigint not null,
    views      jsonb not null,  -- oldest first
    primary key (project_id, id)
);
