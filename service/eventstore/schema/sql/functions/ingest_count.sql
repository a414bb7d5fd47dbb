-- What ingest_flush does, without keys, for the release before: it calls this one.
create or replace function ingest_count(
    gates bigint[], flusher_lock bigint, head_projects text[], head_streams text[], head_revisions bigint[],
    senders text[], dsn_hashes text[], accounts text[], flusher text, number bigint,
    new_logs json, new_analytics json, new_cases json, new_users json, new_usage json
) returns bigint language plpgsql as $body$
begin
    return ingest_flush(
        gates => ingest_count.gates, key_locks => '{}', flusher_lock => ingest_count.flusher_lock,
        head_projects => ingest_count.head_projects, head_streams => ingest_count.head_streams,
        head_revisions => ingest_count.head_revisions, senders => ingest_count.senders,
        dsn_hashes => ingest_count.dsn_hashes, accounts => ingest_count.accounts, flusher => ingest_count.flusher,
        number => ingest_count.number, new_logs => ingest_count.new_logs, new_analytics => ingest_count.new_analytics,
        new_records => null, new_parts => null, new_cases => ingest_count.new_cases,
        new_users => ingest_count.new_users, new_usage => ingest_count.new_usage);
end
$body$;
