-- The rows of projects as their gates have them. Whoever asks for one by its key finds it by the index: what this selects
-- becomes a part of the query.
create or replace function projects_as_owned() returns table (
    project_id text, id text, revision bigint, name text, created_by text, synthetic boolean, status text, dsn_hash text,
    dsn_prefix text, created_at bigint, fenced_at bigint
) language sql stable as $body$
    select p.project_id, p.id, p.revision, p.name, p.created_by, p.synthetic, owned_status(p.project_id, p.status),
        p.dsn_hash, p.dsn_prefix, p.created_at, p.fenced_at
    from projects p
$body$;
