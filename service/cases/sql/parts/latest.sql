-- The latest error `e` of a case.
json_build_object('id', e.id, 'message', e.message, 'level', e.level, 'environment', e.environment,
    'release', e.release, 'user_id', e.user_id, 'tags', e.tags, 'received_at', e.received_at,
    'occurred_at', coalesce(e.occurred_at, e.received_at), 'adjusted', coalesce(e.adjusted, '[]'),
    'dsn', case when e.public then 'public' else 'server' end)
