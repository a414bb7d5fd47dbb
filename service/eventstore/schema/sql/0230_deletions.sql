-- compatible: yes
-- Deletions of projects and accounts: a read model, scoped by the deletion's own id, so that no erasure reaches it.
create table deletions (
    project_id          text   collate "C" not null,  -- the deletion's own id
    id                  text   collate "C" not null,
    revision            bigint not null,
    kind                text   not null,
    scope_id            text   collate "C" not null,  -- the project, or the user id
    account_id          text   collate "C" not null,  -- who asked
    parent_id           text   collate "C",           -- the deletion of an account that took this project along
    command_key_sha256  text   not null,
    api_key_sha256      text   collate "C" not null,
    phase               text   not null,
    fenced_at           bigint not null,
    deleted_at          bigint,
    manifest            jsonb  not null,
    cascaded            jsonb  not null,
    external_follow_ups jsonb  not null,
    primary key (project_id, id)
);
create index deletions_scope on deletions (scope_id, fenced_at);
create index deletions_api_key on deletions (api_key_sha256) where api_key_sha256 <> '';
create index deletions_parent on deletions (parent_id) where parent_id is not null;
create index deletions_open on deletions (fenced_at, id) where phase <> 'deleted';
create index deletions_receipts on deletions (deleted_at) where phase = 'deleted';

-- What a scope consists of, as rows that a command can look up by the stream of the project or the person. Over a
-- function, which finds its tables by name when it runs: a view that named them would hold on to a read model's old
-- table when a rebuild swaps it. functions/inventory.sql says what it does.
create function inventory(scope text) returns jsonb language sql stable as $body$ select '{}'::jsonb $body$;
create view inventories as
select h.project_id, h.stream_id as id, inventory(scope => h.project_id) as inventory
from stream_heads h where h.kind in ('proj', 'usr') and h.stream_id = h.project_id;
