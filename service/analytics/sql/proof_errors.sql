-- The newest errors that show a failure and carry a proof's marker, and those that carry another one.
select r.message, r.received_at, r.marker_hash, abridged(object => r.tags, names => %(names)s),
    abridged(object => r.extra, names => %(names)s), abridged(object => r.user_data, names => %(names)s)
from (
    (select message, received_at, marker_hash, tags, extra, user_data from log_events
    where project_id = %(project_id)s and marker_hash = %(marker)s and level in ('error', 'fatal')
        and received_at >= %(since)s and received_at < %(until)s
        and (tags ->> %(key)s = %(failure)s or extra ->> %(key)s = %(failure)s or strpos(message, %(failure)s) > 0)
    order by received_at desc limit %(most)s)
    union all
    (select message, received_at, marker_hash, tags, extra, null from log_events
    where project_id = %(project_id)s and marker_hash is not null and marker_hash <> %(marker)s
        and level in ('error', 'fatal') and received_at >= %(since)s and received_at < %(until)s
        and (tags ->> %(key)s = %(failure)s or extra ->> %(key)s = %(failure)s or strpos(message, %(failure)s) > 0)
    limit %(most_stray)s)
) r
