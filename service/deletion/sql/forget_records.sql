-- Delete the idempotency records of some blocks that name a scope. Answers are kept under who asked, so those about a
-- project lie in the scopes of its people too. Answers in projects that stay are those projects' own, also where they
-- name somebody whose account goes.
delete from idempotency
where ctid >= format('(%%s,0)', %(first)s::bigint)::tid and ctid < format('(%%s,0)', %(after)s::bigint)::tid
    and project_id !~ %(not_in)s
    and (position(%(scope)s in operation) > 0 or position(convert_to(%(scope)s, 'UTF8') in body) > 0)
