-- What stays of the last error `n` of a case.
jsonb_build_object('id', n.id, 'message', n.message, 'level', n.level, 'environment', n.environment,
    'release', n.release, 'user_id', n.user_id, 'tags', n.tags, 'received_at', n.received_at,
    'occurred_at', coalesce(n.occurred_at, n.received_at), 'adjusted', coalesce(n.adjusted, '[]'),
    'dsn', case when n.public then 'public' else 'server' end)
