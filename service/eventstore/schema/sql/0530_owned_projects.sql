-- compatible: yes
-- A project of which no active owner is left is fenced, from the commit on that fenced the account of its last one: who
-- works under its gate reads it through here. Over functions, as `inventories` is (0230): a view that named a read model
-- would hold on to its old table when a rebuild swaps it. The functions' own files say what they do.
create function owned_status(project text, status text) returns text language sql stable as $body$ select $2 $body$;
create function projects_as_owned() returns table (
    project_id text, id text, revision bigint, name text, created_by text, synthetic boolean, status text, dsn_hash text,
    dsn_prefix text, created_at bigint, fenced_at bigint
) language sql stable as $body$ select p.* from projects p where false $body$;
create function projects_owned_by(person text) returns text[] language sql stable as $body$ select '{}'::text[] $body$;
create view owned_projects as  -- the keys in the order of the table's own, so that its index finds them
select p.project_id collate "C" as project_id, p.id collate "C" as id, p.revision, p.name, p.created_by, p.synthetic,
    p.status, p.dsn_hash, p.dsn_prefix, p.created_at, p.fenced_at
from projects_as_owned() p;
create view ownerships as
select h.project_id, h.stream_id as id, projects_owned_by(person => h.project_id) as projects
from stream_heads h where h.kind = 'usr' and h.stream_id = h.project_id;
