-- Whether a credential of a kind is live in a project: one row, or none.
select from credentials
where project_id = %(project_id)s and kind = %(kind)s and revoked_at is null and expires_at > %(now)s
limit 1
