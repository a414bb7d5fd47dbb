"""The row of whole self-healing chains over HTTP, beside a DBOS workflow of as many steps.

A chain begins with a receipt for an open case and ends with its deploy verified. Verification observes a minute of
traffic, so chains go in waves: errors open the cases, all of a wave are carried to their deploys, the test clock is
moved past the minute once, traffic is sent, and all of them are verified. Only the time of carrying and verifying
counts.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL

from scripts.bench.figures import Figures, console, turns_per_second
from scripts.load import automation_world, loadgen, worlds
from scripts.load.automation_world import AUTOMATION, BASE, OBSERVATION_SECONDS, REPOSITORY, SETTLING, TRAFFIC, Shop

# Whole self-healing chains over HTTP, for `make bench`: runners, an owner and a CI, each with its own credential.

STEPS = 15
"""Commands of a chain, from its receipt to its verification; each of them moves it."""
RUNNERS = 16
CHAINS_OF_A_RUNNER = 8

Talk = Generator[loadgen.Request, loadgen.Response, Any]


@dataclass
class Tally:
    """The result of a load: seconds of requests, finished chains and recorded events."""

    seconds: float = 0.0
    chains: int = 0
    events: int = 0


def ask(method: str, path: str, body: Any, secret: str, *statuses: int) -> Talk:
    """Send a request under a key of its own; returns the answer's JSON, and ends the program on another status."""
    headers = {
        "authorization": f"Bearer {secret}",
        "content-type": "application/json",
        "idempotency-key": secrets.token_hex(8),
    }
    if body is None:
        headers = {"authorization": headers["authorization"]}
    status, _, answer = yield method, path, headers, b"" if body is None else json.dumps(body).encode()
    if status not in (statuses or (200,)):
        raise SystemExit(f"{method} {path} answered {status}: {answer[:400]!r}")
    return json.loads(answer)


def sha_of(*parts: str) -> str:
    """Generate a commit id."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:40]


def open_case(shop: Shop, name: str) -> Talk:
    """Report an error with a new fingerprint, which opens a case; returns the case's id."""
    error = {
        "level": "error",
        "message": "The order was lost.",
        "environment": "production",
        "release": "1.0.0",
        "extra": {"exception": {"type": name, "frames": [{"file": "app.py", "function": "pay", "in_app": True}]}},
    }
    taken = yield from ask("POST", "/v1/logs/", error, shop.dsn, 202)
    return taken["case_id"]


def carry_to_deploy(shop: Shop) -> Talk:
    """Take one chain from its receipt to its bound deploy; returns the run's id."""
    runner = shop.runner
    issue = {"automation_id": AUTOMATION}
    issued = yield from ask("POST", f"{shop.path}/automation-triggers/issue", issue, runner)
    receipt = next(item for item in issued["trigger_receipts"] if item["status"] == "issued")
    case_id = receipt["case"]["case_id"]
    claim = {"trigger_receipt_id": receipt["receipt_id"], "case_revision": receipt["case"]["case_revision"]}
    yield from ask("POST", f"/v1/cases/{case_id}/claims", claim, runner, 201)
    yield from ask("GET", f"/v1/cases/{case_id}", None, runner)
    start = {"trigger_receipt_id": receipt["receipt_id"]}
    run = yield from ask("POST", f"{shop.path}/automation-runs", start, runner, 201)
    path = f"/v1/automation-runs/{run['run_id']}"
    token = {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}
    run = yield from ask("PATCH", path, token | {"phase": "running"}, runner)
    token["state_revision"] = run["state_revision"]
    usage = {"turns": 3, "cost_usd": 0.05, "runtime_seconds": 30}
    used = yield from ask("POST", f"{path}/usage", token | usage, runner)
    token["state_revision"] = used["state_revision"]
    wish = {"action": "draft_pr", "summary": "Save the order before it is paid."}
    asked = yield from ask("POST", f"{path}/approvals", token | wish, runner, 201)
    decision = f"/v1/automation-approvals/{asked['approval_id']}/decide"
    yield from ask("POST", decision, {"decision": "approve"}, shop.owner)
    run = yield from ask("GET", path, None, runner)
    token["state_revision"] = run["state_revision"]
    used = yield from ask("POST", f"{path}/usage", token | usage, runner)
    token["state_revision"] = used["state_revision"]
    yield from deliver(shop, run["run_id"], path, token)
    return run["run_id"]


def deliver(shop: Shop, run_id: str, path: str, token: dict[str, int]) -> Talk:
    """Take a run from its grant to the deploy of its merged pull request."""
    head, merged = sha_of(run_id, "head"), sha_of(run_id, "merged")
    change = {
        "repository": REPOSITORY,
        "base_branch": BASE,
        "head_branch": f"heal/{run_id}",
        "head_sha": head,
        "delivery_mode": "review_required",
        "files_changed": ["src/orders.py"],
        "changed_lines": 4,
        "tests": [{"command": "make test", "passed": True}],
    }
    grant = yield from ask("POST", f"{path}/actions/draft-pr/authorize", token | change, shop.runner, 201)
    token["state_revision"] = grant["state_revision"]
    spend = token | {"grant_id": grant["grant_id"]}
    consumed = yield from ask("POST", f"{path}/actions/draft-pr/consume", spend, shop.runner)
    if not consumed["call_authorized"]:
        raise SystemExit("a fresh grant did not authorize the call")
    token["state_revision"] = consumed["state_revision"]
    url = f"{REPOSITORY}/pull/7"
    opened = {"status": "draft_pr_opened", "pull_request": {"number": 7, "url": url, "head_sha": head}}
    yield from ask("PATCH", path, token | opened, shop.runner)
    proof = {name: change[name] for name in ("repository", "base_branch", "head_branch", "head_sha")}
    proof |= {"pr_number": 7, "pr_url": url, "draft": True}
    yield from ask("POST", f"{path}/pr-proof", proof | {"observation": "pr_opened"}, shop.ci, 201)
    merge = {"observation": "merged", "merge_commit_sha": merged}
    yield from ask("POST", f"{path}/pr-proof", proof | merge, shop.ci, 201)
    deploy = {"version": "1.0.1", "environment": "production", "sha": merged}
    bound = yield from ask("POST", "/v1/deploys/", deploy, shop.ci, 202)
    if bound["automation_run_id"] is None:
        raise SystemExit("a deploy of the proven commit was not bound")


def opening(shop: Shop) -> loadgen.Client:
    """A product that reports several kinds of errors."""
    prefix = f"E{secrets.token_hex(4)}"
    for turn in range(CHAINS_OF_A_RUNNER):
        yield from open_case(shop, f"{prefix}{turn}")


def carrying(shop: Shop, waiting: list[str]) -> loadgen.Client:
    """One runner that works on chains of its project, one after the other."""
    for _ in range(CHAINS_OF_A_RUNNER):
        run_id = yield from carry_to_deploy(shop)
        waiting.append(run_id)


def verifying(shop: Shop, waiting: Sequence[str]) -> loadgen.Client:
    """One runner that has its deploys verified."""
    for run_id in waiting:
        verdict = yield from ask("POST", f"/v1/automation-runs/{run_id}/verify", {}, shop.runner)
        if verdict["status"] != "succeeded":
            raise SystemExit(f"{run_id} ended as {verdict['status']}")


def run_wave(world: worlds.Service, shops: Sequence[Shop], tally: Tally) -> loadgen.Stats:
    """Finish the chains of all runners; returns the seconds of the requests up to the deploys."""
    waiting: list[list[str]] = [[] for _ in shops]
    world.load(lambda number: opening(shops[number]), len(shops), 120)
    began = count_events(world)
    carried = world.load(lambda number: carrying(shops[number], waiting[number]), len(shops), 120)
    tally.events += count_events(world) - began
    world.advance(OBSERVATION_SECONDS + SETTLING)
    wait_for_worker(world)  # The outcome is still pending: there was no traffic yet.
    for shop in shops:
        world.call("POST", "/v1/analytics/", {"event": TRAFFIC, "distinct_id": "later"}, shop.dsn)
    time.sleep(SETTLING)  # Moving the clock would queue a sweep, which would verify before the runners do.
    began = count_events(world)
    verified = world.load(lambda number: verifying(shops[number], waiting[number]), len(shops), 120)
    tally.events += count_events(world) - began
    tally.chains += sum(map(len, waiting))
    tally.seconds += carried.seconds + verified.seconds
    return carried


def count_events(world: worlds.Service) -> int:
    """Count the recorded events."""
    [[count]] = world.query("select count(*) from events")
    return int(count)


def wait_for_worker(world: worlds.Service) -> None:
    """Wait until the worker has finished the jobs that the moved clock made due."""
    world.wait_for_none("select count(*) from procrastinate_jobs where status in ('todo', 'doing')", 60)


def measure(world: worlds.Service, seconds: float) -> tuple[Tally, loadgen.Stats]:
    """Run waves for about so many seconds of requests, after one to warm up. Every chain succeeds, or it ends here."""
    shops = automation_world.open_shops(world, RUNNERS, max_cases_per_sweep=1)
    run_wave(world, shops, warm := Tally())
    tally = Tally()
    while tally.seconds < seconds:
        stats = run_wave(world, shops, tally)
    chains = tally.chains + warm.chains
    [[succeeded]] = world.query("select count(*) from automation_runs where outcome = 'succeeded'")
    if succeeded != chains:
        raise SystemExit(f"{chains} chains were told that they succeeded, {succeeded} are recorded")
    return tally, stats


# Durable execution off the shelf: a DBOS workflow of trivial steps, the yardstick of the bench's chains. DBOS
# checkpoints each step of a workflow in PostgreSQL, as this service records each transition of a chain. It runs in
# process, without HTTP, authentication, fences or read models: the comparison is in its favour.


def system_address(conninfo: str) -> str:
    """Translate a libpq string into the address form that DBOS takes."""
    parts = conninfo_to_dict(conninfo)
    address = URL.create(
        "postgresql+psycopg",
        username=str(parts["user"]),
        password=str(parts["password"]) if "password" in parts else None,
        database=str(parts["dbname"]),
        query={"host": str(parts["host"]), "port": str(parts.get("port", 5432))},
    )
    return address.render_as_string(hide_password=False)


def durable_steps(conninfo: str, *, steps: int, threads: int = 8, seconds: float = 6.0) -> float:
    """Measure the steps per second of workflows of `steps` steps, one after the other in each thread."""
    from dbos import DBOS, DBOSConfig

    config = DBOSConfig(
        name="bench",
        system_database_url=system_address(conninfo),
        sys_db_pool_size=threads + 8,
        log_level="ERROR",
        console_log_level="ERROR",
    )
    DBOS(config=config)

    @DBOS.step()
    def step(number: int) -> int:
        """A step that does nothing."""
        return number + 1

    @DBOS.workflow()
    def chain(number: int) -> int:
        """Run the steps one after the other."""
        for _ in range(steps):
            number = step(number)
        return number

    DBOS.launch()
    try:
        for number in range(threads):
            assert chain(number) == number + steps
        return steps * turns_per_second(lambda _, count: chain(count), threads=threads, seconds=seconds)
    finally:
        DBOS.destroy()


def measure_chains(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Take cases from their first error to a verified deploy, beside DBOS workflows of as many trivial steps.

    A transition is one row of a machine's table, taken and recorded durably; so is the result of a DBOS step. Most
    commands make several transitions at once, on several streams: their own rate is told beside the figure.
    """
    with world.api(test_clock=True):
        tally, stats = measure(world, seconds)
    length = round(tally.events / tally.chains)
    console.print(f"[bold]DBOS workflows of {length} steps, 8 threads[/bold]")
    steps = durable_steps(world.fresh_database("durable"), steps=length, seconds=seconds)
    chain_rate, command_rate = tally.chains / tally.seconds, tally.chains * STEPS / tally.seconds
    console.print(
        f"  {steps:,.0f} steps/s; {tally.chains} chains of {STEPS} commands and {length} transitions, "
        f"{command_rate:,.0f} commands/s ({command_rate / steps:.2f} of the steps), p50 {stats.percentile(0.5):.1f} ms"
    )
    figures.add("self-healing chains, 16 runners", chain_rate, "/s", yardstick=40, promised=1)
    figures.add("their transitions against DBOS steps", chain_rate * length, "/s", yardstick=steps, promised=2)
