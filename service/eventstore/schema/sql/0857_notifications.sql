-- compatible: yes
-- Destinations of notifications, a read model. Their deliveries lie in the outbox of webhooks, with the sealed address
-- in `webhook_targets`. The release before takes up no delivery of theirs.
create table notification_destinations (
    project_id  text collate "C" not null,
    id          text collate "C" not null,
    revision    bigint not null,
    kind        text not null,
    origin      text not null,
    rules       jsonb not null,  -- one a member
    status      text not null,
    stop_reason text,
    stopped_at  bigint,
    created_at  bigint not null,
    primary key (project_id, id)
);
-- The latest message about a subject to a destination: at most one an hour.
create table notification_turns (
    project_id text collate "C" not null,
    id         text collate "C" not null,  -- the destination's
    subject_id text collate "C" not null,
    position   bigint not null,
    told_at    bigint not null,
    primary key (project_id, id, subject_id)
) with (fillfactor = 70);
create index notification_turns_told on notification_turns (told_at);

-- A notification that waits for the end of quiet hours, or of an hour, until `held_ms`. Then the first to be sent takes
-- the others along in a digest: they name its position.
alter table webhook_deliveries add column held_ms bigint, add column merged_into bigint;
create index webhook_deliveries_merged on webhook_deliveries (project_id, webhook_id, merged_into)
    where merged_into is not null;

-- What a command looks up of them by the stream of a project, over functions, which find their tables when they run (a
-- rebuild swaps tables): functions/ says what they do.
create function standing_destinations(project text) returns bigint language sql stable
    as $body$ select 0::bigint $body$;
create function standing_rules(project text) returns bigint language sql stable as $body$ select 0::bigint $body$;
create view notification_counts as
select h.project_id, h.stream_id as id, standing_destinations(project => h.project_id) as destinations,
    standing_rules(project => h.project_id) as rules
from stream_heads h where h.kind = 'proj';
