-- What is shown of error `e`, as it is stored.
e.received_at, e.id, e.level, e.message, e.environment, e.release, e.user_data::text, e.tags::text, e.extra::text,
    e.packed, e.grouped_by, e.adjusted::text, e.public, coalesce(e.occurred_at, e.received_at)
