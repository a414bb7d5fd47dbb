-- compatible: yes
-- What names of events and keys of their properties a project has sent, by UTC day. Written in the transaction of the
-- rows that they count (ingest_names), so they never lag behind an acknowledgement. Facts, like other counters.

-- A day of a project: how many names and pairs of a name and a key are counted below, and what found no room there.
create table event_days (
    project_id   text   collate "C" not null,
    day          bigint not null,  -- epoch of UTC midnight
    names        bigint not null,
    keys         bigint not null,
    other_rows   bigint not null,  -- events of further names
    other_values bigint not null,  -- properties of further pairs
    whole        boolean not null, -- false: the day had events before anybody counted
    primary key (project_id, day)
) with (fillfactor = 50);

create table event_name_days (
    project_id text   collate "C" not null,
    day        bigint not null,
    event      text   collate "C" not null,
    row_count  bigint not null,
    first_at   bigint not null,
    last_at    bigint not null,
    primary key (project_id, day, event)
) with (fillfactor = 50);

create table event_key_days (
    project_id text     collate "C" not null,
    day        bigint   not null,
    event      text     collate "C" not null,
    key        text     collate "C" not null,
    row_count  bigint   not null,  -- events that have the property
    types      smallint not null,  -- JSON types of its values, a bit for each: see service/analytics/metadata/types.py
    primary key (project_id, day, event, key)
) with (fillfactor = 50);

-- Which properties events have, and of what type: what a role that checks counters sees of properties. No value.
create view event_properties with (security_barrier) as
select e.project_id, e.received_at, e.event, k.key, jsonb_typeof(k.value) as type
from analytics_events e cross join lateral jsonb_each(e.properties) k;
