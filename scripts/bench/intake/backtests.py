"""A back-test of ninety days for `make bench`: each look considers every case, and errors have changed all of them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from scripts.load import worlds
from tests.support.loop.contracts import contract_of

DAYS, CASES, ERRORS, LEAST = 90, 46, 100_000, 450  # 46 cases in 24 looks a day are 100,000 considered

_CASES = """
with made as (
    insert into events (project_id, stream_id, revision, kind, topic, payload, event_id, command_id, actor_kind,
        actor_id, request_id, correlation_id, causation_id, recorded_at, salt, payload_hash, leaf, chain)
    select %s::text, 'case_then_' || n, 1, 'case', 'case.opened.v1', jsonb_build_object('fingerprint', md5(n::text),
        'grouping_version', 1, 'opened_at', 1), 'event_then', 'cmd_then', 'system', 'bench', 'req_then', 'req_then',
        '', service_now() - make_interval(days => %s) + make_interval(secs => 60 + n),
        '\\x00', '\\x00', '\\x00', '\\x00'
    from generate_series(1, %s) n
    returning project_id, stream_id, recorded_at)
insert into cases (project_id, id, revision, case_revision, status, fingerprint, grouping_version, opened_at)
select project_id, stream_id, 1, 1, 'open', md5(stream_id), 1, floor(extract(epoch from recorded_at)) from made
"""
_ERRORS = """
insert into log_events (project_id, received_at, id, level, message, environment, tags, extra, case_id)
select %s::text, floor(extract(epoch from service_now()))::bigint - %s::bigint * 86400 + 300
    + n * (%s::bigint * 86400 - 600) / %s::bigint, 'log_then_' || n, 'error', 'It failed.', 'production', '{}', '{}',
    'case_then_' || 1 + n %% %s
from generate_series(1::bigint, %s) n
"""
_STATS = """
insert into case_stats (project_id, id, title, message, level, environment, environments, releases, unmarked,
    event_count, users_affected, first_seen_at, last_seen_at)
select e.project_id, e.case_id, 'T', 'M', 'error', 'production', '{production}', '{}', true, count(*), 0,
    min(e.received_at), max(e.received_at)
from log_events e where e.project_id = %s group by 1, 2
"""
_LOOKS = """
insert into automation_looks (project_id, automation_id, hour, look, asked_by, seconds)
select %s::text, 'heal', h.hour, 'sweep', 'system', '{0}'
from (select floor(extract(epoch from service_now()) / 3600)::bigint * 3600 - 3600 * n as hour
    from generate_series(0, 24 * %s) n) h
"""


class Measured(NamedTuple):
    """How long the answer took (seconds), and what it says it did."""

    seconds: float
    told: dict[str, Any]


def measure(world: worlds.World) -> Measured:
    """Ask for one back-test, after one to warm up. Nothing else runs."""
    project = world.create_project("backtest")
    world.query(_CASES, project["id"], DAYS, CASES)
    world.query(_ERRORS, project["id"], DAYS, DAYS, ERRORS, CASES, ERRORS)
    world.query(_STATS, project["id"])
    world.query(_LOOKS, project["id"], DAYS)
    world.query("analyze")
    path = f"/v1/projects/{project['id']}/automation-contract/backtest"
    body = contract_of("review_required") | {"days": DAYS}
    for part in ("bindings", "policy"):
        # Most are passed over: what has happened so often, and a moment ago, is rare.
        materiality = {"minimum_event_count": LEAST, "maximum_last_seen_age_seconds": 3600}
        body["automations"][0][part]["trigger"] |= {"materiality": materiality}
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        told = world.call("POST", path, body, world.owner_key)
        seconds.append(time.perf_counter() - began)
    return Measured(seconds[-1], told)
