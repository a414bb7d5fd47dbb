-- compatible: yes
-- Publications, a read model: queries that anybody with the address may ask, and revoked ones.
create table publications (
    project_id    text collate "C" not null,
    id            text collate "C" not null,
    revision      bigint not null,
    blueprint_id  text collate "C" not null,
    params        text not null,  -- canonical JSON
    title         text,
    cache_seconds bigint not null,
    key_hash      text not null,
    key_prefix    text not null,
    status        text not null,
    created_at    bigint not null,
    revoked_at    bigint,
    primary key (project_id, id)
);
create index publications_id on publications (id) where status = 'published';
create index publications_published on publications (project_id, created_at, id) where status = 'published';

-- What a command looks up of them by the stream of a project, over a function, which finds its table when it runs (a
-- rebuild swaps tables): functions/ says what it does.
create function published_queries(project text) returns bigint language sql stable as $body$ select 0::bigint $body$;
create view publication_counts as
select h.project_id, h.stream_id as id, published_queries(project => h.project_id) as published
from stream_heads h where h.kind = 'proj';
