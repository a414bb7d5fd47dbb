-- compatible: yes
-- What people wrote about a product and its errors, as SDKs send it: telemetry beside the errors. No event holds a text
-- of theirs. A row goes with the person, with the project, and as old as an error goes.
create table feedback_reports (
    project_id  text    collate "C" not null,
    received_at bigint  not null,
    id          text    collate "C" not null,
    sent_key    text    collate "C" not null,  -- the same for each repeat of one report
    source      text    collate "C" not null,  -- the kind of item it came as
    message     text    not null,
    name        text,
    email       text    collate "C",
    url         text,
    user_id     text    collate "C",
    release     text    collate "C",
    environment text    collate "C",
    adjusted    jsonb,
    public      boolean not null,
    event_key   text    collate "C",           -- the id that the SDK gave the error
    error_id    text    collate "C",           -- the error, its case and its person, once it is stored
    case_id     text    collate "C",
    error_user  text    collate "C",
    primary key (project_id, id)
);
create unique index feedback_reports_sent on feedback_reports (project_id, sent_key);
create index feedback_reports_newest on feedback_reports (project_id, received_at, id);
create index feedback_reports_case on feedback_reports (project_id, case_id, received_at, id)
    where case_id is not null;
create index feedback_reports_apart on feedback_reports (project_id, received_at, id) where case_id is null;
create index feedback_reports_event on feedback_reports (project_id, event_key, received_at, id)
    where event_key is not null;
create index feedback_reports_waiting on feedback_reports (received_at) where event_key is not null and error_id is null;
create index feedback_reports_user on feedback_reports (project_id, user_id) where user_id is not null;
create index feedback_reports_email on feedback_reports (project_id, email) where email is not null;
create index feedback_reports_error_user on feedback_reports (project_id, error_user) where error_user is not null;
