-- Delete what is known of processes that flush no more.
delete from ingest_flushers where seen_at < %(before)s
