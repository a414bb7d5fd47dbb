"""The statements of the intake, beside those it shares with the rounds of the command loop."""

from __future__ import annotations

# One plain statement: the clock of the batch, and what the senders' projects are by now, under their gates.
FACTS = """
select service_now(), (
    select json_agg(json_build_array(p.project_id, p.dsn_hash, p.status, coalesce((
        select m.user_id from memberships m where m.project_id = p.project_id and m.role = 'owner'
        order by m.created_at, m.id limit 1), p.created_by)))::text
    from projects p where p.project_id = any(%s::text[]) and p.id = p.project_id)
"""

STORE = "select ingest_store(%s, %s, %s, %s::json, %s::json, %s::json, %s::json, %s::json, %s::json)"
LAST_BATCH = "select batch from ingest_flushers where id = %s"
WAIT_NAME = "select pg_advisory_xact_lock(%s::bigint)"
END_SESSION = "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and application_name = %s"
