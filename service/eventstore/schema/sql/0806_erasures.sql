-- compatible: yes
-- The deletion of people of a project's telemetry. Its history knows a person by a keyed hash alone; the names are facts
-- that are there from the fence to the end.

create table erasures (
    project_id         text   collate "C" not null,
    id                 text   collate "C" not null,
    revision           bigint not null,
    deletion_id        text   collate "C" not null,
    person_hash        text   collate "C" not null,
    command_key_sha256 text   collate "C" not null,
    phase              text   collate "C" not null,
    names              bigint not null,
    fenced_at          bigint not null,
    records            bigint,
    deleted_at         bigint,
    receipts           jsonb  not null,
    primary key (project_id, id)
);
create index erasures_open on erasures (fenced_at, id) where phase <> 'deleted';

create table erasure_names (
    project_id text    collate "C" not null,
    id         text    collate "C" not null,  -- the stream of the erasure
    names      jsonb   not null,
    until      bigint  not null,
    links_cut  boolean not null,
    records    bigint  not null,
    primary key (project_id, id)
);
create index erasure_names_joined on erasure_names (project_id) where not links_cut;

-- What a command that erases somebody has to know of a name, read under its gate.
create view person_namings as
select n.project_id, n.name as id, n.person, (
    select jsonb_agg(m.name order by m.name) from person_names m
    where m.project_id = n.project_id and m.person = n.person) as names
from person_names n;

-- That there was a record of somebody who was erased, and of what it was one: recurrences and traffic are counted from
-- records, and go on to count these. Nothing here tells whose it was. Kept as long as the record would have been.
create table erased_records (
    project_id  text    collate "C" not null,
    received_at bigint  not null,
    id          text    collate "C" not null,
    event       text    collate "C",  -- of an analytics event; the next ones are of logs
    level       text    collate "C",
    environment text    collate "C",
    release     text    collate "C",
    case_id     text    collate "C",
    public      boolean not null,
    primary key (project_id, received_at, id)
);
create index erased_records_case on erased_records (project_id, case_id, received_at) where case_id is not null;
create index erased_records_event on erased_records (project_id, event, received_at) where event is not null;

-- Errors and people of a case that were erased. Its other counters go on to count them.
alter table case_stats add column erased_errors bigint not null default 0;
alter table case_stats add column erased_people bigint not null default 0;
