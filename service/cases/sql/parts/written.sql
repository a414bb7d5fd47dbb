-- What is shown of report `f`.
f.id, f.received_at, f.message, f.name, f.email, f.url, f.user_id, f.release, f.environment, f.event_key, f.error_id,
    f.case_id, f.adjusted, f.public
