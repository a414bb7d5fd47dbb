-- compatible: yes
-- The member to whom a destination sends mail. Null: it is a chat. The release before sends no mail: it ends as chats do.
alter table notification_destinations add column member_id text;
-- The mail of a person on a day (UTC), so that it stays within a number.
create table mail_days (
    project_id text collate "C" not null,  -- the person
    day        bigint not null,            -- days of the epoch
    deliveries text[] not null,            -- each once, however often it was attempted
    primary key (project_id, day)
);
create index mail_days_day on mail_days (day);
