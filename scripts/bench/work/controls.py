"""A read of control for `make bench`: a project with 1,000 live runs, ten charges of each in its ledger, all of today.

Of the 10,000 entries control counts a run and a pull request of each run; the others are charges within a run.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from scripts.bench.work import chains
from scripts.load import automation_world, loadgen, worlds
from scripts.load.automation_world import Shop

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
