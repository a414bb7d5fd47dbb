-- compatible: yes
-- How many comments and agents' runs a case has, counted under its lock. A row begins with the first one written by a
-- release that counts: whoever writes compares it with the rows that are there.
create table case_notes (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,  -- of the case
    comments   bigint not null,
    agent_runs bigint not null,
    primary key (project_id, id)
);
