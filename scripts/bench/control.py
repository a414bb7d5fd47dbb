"""The rows of large automations: a read of control, and a back-test of ninety days.

Of the 10,000 entries control counts a run and a pull request of each run; the others are charges within a run.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, NamedTuple

from scripts.bench import chains
from scripts.bench.figures import Figures, console
from scripts.load import automation_world, loadgen, worlds
from scripts.load.automation_world import Shop
from tests.support.loop.contracts import contract_of

# A read of control for `make bench`: a project with 1,000 live runs, ten charges of each in its ledger, all of
# today.

RUNS = 1_000
TABLES = {"automation_runs": "id", "claims": "run_id", "approvals": "run_id", "grants": "run_id"}

# Copies of one run, with what hangs on it: every id in them, and in their states, gets a number of its own.
_COPY = """
insert into {0} select c.* from {0} t, generate_series(2, %s) n, jsonb_populate_record(null::{0}, regexp_replace(
    to_jsonb(t)::text, '"((run|claim|appr|grant)_[0-9a-z]{{20,}})"', '"\\1x' || n || '"', 'g')::jsonb) c
where t.project_id = %s and t.{1} = %s
"""
_LEDGER = """
update ledgers l set
    runs = (select jsonb_agg(l.clock - n) from generate_series(1, %s) n),
    prs = (select jsonb_agg(jsonb_build_array('grant_' || n, 1, l.clock - n, l.clock + 900, true))
        from generate_series(1, %s) n)
where l.project_id = %s
"""


def measure(world: worlds.World, seconds: float) -> loadgen.Stats:
    """Read control again and again, by one caller."""
    shop = automation_world.open_shop(world, "control")
    found: list[str] = []
    world.load(lambda _: _begin(shop, found), 1, 60)
    for table, column in TABLES.items():
        world.query(_COPY.format(table, column), RUNS, shop.id, found[0])
    world.query(_LEDGER, RUNS, RUNS, shop.id)
    world.query("analyze")
    told = world.call("GET", f"{shop.path}/automation-control", None, shop.owner)
    used = {budget["budget"]: budget["used"] for budget in told["budgets"]}
    if used != {"max_runs_per_day": RUNS, "max_prs_per_day": RUNS} or not told["truncation"]["exceptions"]:
        raise SystemExit(f"control shows {used}")
    world.load(lambda _: _reading(shop), 1, 1.0)
    return world.load(lambda _: _reading(shop), 1, seconds)


def _begin(shop: Shop, found: list[str]) -> Generator[Any, Any, None]:
    """Carry one chain to its deploy: its run waits for traffic."""
    yield from chains.open_case(shop, "Control")
    found.append((yield from chains.carry_to_deploy(shop)))


def _reading(shop: Shop) -> loadgen.Client:
    """Read control as the owner."""
    while True:
        yield "GET", f"{shop.path}/automation-control", {"authorization": f"Bearer {shop.owner}"}, b""


def measure_control(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Read control of a project with 1,000 live runs and 10,000 entries in its ledger."""
    found = measure(world, seconds)
    console.print(f"  control: {dict(found.statuses)}, p50 {found.percentile(0.5):.1f} ms")
    slow = found.percentile(0.95)
    figures.add("p95 of control, 1,000 runs, 10,000 entries", slow, "ms", yardstick=50, promised=1, most=True)


# A back-test of ninety days for `make bench`: each look considers every case, and errors have changed all of them.

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


def look_back(world: worlds.World) -> Measured:
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


def measure_backtest(figures: Figures, world: worlds.World) -> None:
    """Try a contract on ninety days in which looks considered 100,000 cases, over HTTP."""
    found = look_back(world)
    told = found.told
    console.print(f"  {told['looks']:,} looks, {told['considered']:,} considered, {len(told['decisions']):,} decisions")
    figures.add(
        "a back-test of 90 days, 100,000 considered cases", found.seconds, "s", yardstick=5, promised=1, most=True
    )
