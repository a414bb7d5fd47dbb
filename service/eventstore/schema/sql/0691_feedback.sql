-- compatible: yes
-- Feedback of people, facts in the scope of each person.
create table feedback (
    project_id    text   collate "C" not null,  -- the person
    id            text   collate "C" not null,  -- made of person, kind and fingerprint
    kind          text   not null,
    fingerprint   text   not null,
    title         text   not null,
    body_md       text,
    severity      text,
    about_project text   collate "C",
    operation     text,
    request_id    text,
    details       text,                          -- JSON
    occurrences   bigint not null,
    created_at    bigint not null,
    last_at       bigint not null,
    primary key (project_id, id)
);
create index feedback_latest on feedback (last_at, project_id, id);
create index feedback_about on feedback (about_project) where about_project is not null;

create view feedback_counts as
select h.project_id, h.stream_id as id,
    (select count(*) from feedback f where f.project_id = h.project_id) as kept
from stream_heads h where h.kind = 'usr' and h.stream_id = h.project_id;
