"""The statements of the intake, beside those it shares with the rounds of the command loop."""

from __future__ import annotations

from service.eventstore.connect.facts import NOW

# Plain statements, outside a pipeline: they arm the timeout of an idle transaction (see eventstore/write/round.py).
FACTS = f"select {NOW}, ingest_projects(wanted => %s)::text, ingest_public_dsns(wanted => %s)::text"
LOCK = """select ingest_lock(gates => %s, wanted => %s, head_projects => %s, head_streams => %s,
    record_names => %s::json, senders => %s)::text
"""
STORE = """select ingest_store(moment => %s, flusher => %s, number => %s, new_records => %s::json, new_logs => %s::json,
    new_analytics => %s::json, new_cases => %s::json, new_users => %s::json, new_usage => %s::json)
"""
PARTS = "select ingest_parts(moment => %s, new_parts => %s::json)"
FLUSH = """select ingest_flush(gates => %s, key_locks => %s, flusher_lock => %s, head_projects => %s,
    head_streams => %s, head_revisions => %s, senders => %s, dsn_hashes => %s, accounts => %s, flusher => %s,
    number => %s, new_records => %s::json, new_parts => %s::json, new_logs => %s::json, new_analytics => %s::json,
    new_cases => %s::json, new_users => %s::json, new_usage => %s::json)
"""
ENTER_ROOMS = """
insert into case_rates as r (project_id, hour, opened) select p, %s, 0 from unnest(%s::text[]) p order by p
on conflict (project_id) do update set hour = greatest(r.hour, excluded.hour),
    opened = case when r.hour < excluded.hour then 0 else r.opened end,
    opened_public = case when r.hour < excluded.hour then 0 else least(r.opened_public, r.opened) end
returning r.project_id, r.hour, r.opened, r.opened_public
"""
LEAVE_ROOMS = """
update case_rates r set opened = r.opened + u.opened, opened_public = r.opened_public + u.by_public
from unnest(%s::text[], %s::bigint[], %s::bigint[]) u(project_id, opened, by_public) where r.project_id = u.project_id
"""
LAST_BATCH = "select batch, seen_at from ingest_flushers where id = %s"
WAIT_NAME = "select pg_advisory_xact_lock(%s::bigint)"
GIVE_UP = """
insert into ingest_flushers as f (id, batch, seen_at, given_up)
values (%s, 0, (select service_seconds()), %s)
on conflict (id) do update set given_up = excluded.given_up
"""
END_SESSION = "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and application_name = %s"
STANDING = """
select coalesce((select l.number from provider_looks l where l.project_id = %s), 0), (
    select c.id from provider_connections c where c.project_id = %s and c.status = 'connected'
    order by c.connected_at desc, c.id desc limit 1)
"""
STORE_PROVIDED = """select provider_store(moment => %s, look => %s::json, new_cases => %s::json, new_counts => %s::json,
    new_groups => %s::json, uuids => %s, last_at => %s)
"""
DROP_PROVIDED = "select drop_provided(project => %s)"
