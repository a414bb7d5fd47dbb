-- compatible: yes
-- The people whom telemetry names: which names are one person's, and what a product says of a person. Facts, like all
-- telemetry: no event holds a name. They go with the person, with the project, and some time after the last record.

-- A name and whose it is. A person is called by one of its names, which has a row, too. Whoever has one name has none.
create table person_names (
    project_id text   collate "C" not null,
    name       text   collate "C" not null,
    person     text   collate "C" not null,
    linked_at  bigint not null,
    primary key (project_id, name)
);
create index person_names_person on person_names (project_id, person, name);

create table telemetry_people (
    project_id text    collate "C" not null,
    id         text    collate "C" not null,  -- the name that the person is called by
    identified boolean not null,
    properties jsonb   not null,
    refused    bigint  not null,              -- links that would have joined two identified people, or too many names
    told_at    bigint  not null,              -- when a product last said something of the person, by the day at least
    primary key (project_id, id)
) with (fillfactor = 80);

-- Callers' own queries count people by `person`.
create or replace view queried_events with (security_barrier) as
select e.id, e.event, e.distinct_id, e.received_at, e.properties, coalesce(n.person, e.distinct_id) as person
from analytics_events e
left join person_names n on n.project_id = e.project_id and n.name = e.distinct_id
where e.project_id = nullif(current_setting('service.project_id', true), '');

create or replace view queried_errors with (security_barrier) as
select e.id, e.case_id, e.fingerprint, e.level, e.environment, e.release, e.user_id, e.received_at, e.tags,
    coalesce(n.person, e.user_id) as person
from log_events e
left join person_names n on n.project_id = e.project_id and n.name = e.user_id
where e.project_id = nullif(current_setting('service.project_id', true), '') and e.case_id is not null;
