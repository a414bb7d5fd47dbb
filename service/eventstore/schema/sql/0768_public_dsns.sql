-- compatible: yes
-- The public DSN of a project (G-184): a read model beside `projects`. The release before does not know this table, so to it
-- a public DSN is nobody's. A project without a row has none, and is one from before: it accepts what such a DSN sends.
create table public_dsns (
    project_id           text collate "C" not null,
    id                   text collate "C" not null,
    revision             bigint not null,
    dsn_hash             text collate "C" not null,
    dsn_prefix           text collate "C" not null,
    accept_public_events boolean not null,
    primary key (project_id, id)
);
create index public_dsns_hash on public_dsns (dsn_hash);

-- Which records came by a public DSN.
alter table log_events add column public boolean not null default false;
alter table analytics_events add column public boolean not null default false;
