-- compatible: yes
-- Which runs and pull requests have had a patch (G-172): a row for each id that git gives one.
create table patches (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,
    revision   bigint not null,
    holders    jsonb  not null,
    primary key (project_id, id)
);
