-- Whether a case was seen since a time. Nothing where it is null.
(%(since)s::bigint is null or s.last_seen_hour >= %(since)s / 3600 and s.last_seen_at >= %(since)s)
