-- Whether an account has asked for the deletion of something, and that has begun.
select exists (
    select from deletions d
    where d.scope_id = %(scope_id)s and d.account_id = %(account_id)s and d.phase <> 'fenced')
