"""Keep the database of a release, with work in flight, as plain SQL: what a test of upgrades begins with.

`python -m scripts.released_database tests/golden/databases/NAME` in a checkout of the commit whose database is wanted
(copy this file there when that is older) writes NAME.sql and NAME.json. The latter holds what the principals present
and what was left unfinished: a run that its runner holds, an open sign-in, a job that nobody has taken, and events that
the sequencer has not numbered. All of it is throw-away, on loopback.

The clock of the database is moved decades ahead before anything happens, so that whoever restores it can set it back to
the moment it was left at: leases and codes are as alive then as they were.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from scripts.load import automation_world, loadgen, worlds
from service.embedded.programs import wheel_programs
from service.eventstore.log.reactor import Job
from service.eventstore.log.sequencer import defer

AHEAD = 30 * 365 * 86400  # seconds
KEYS = {"SERVICE_ENCRYPTION_KEY": "11" * 32, "SERVICE_SIGNING_KEY": "22" * 32}
WAITING = Job("eventstore.forget_records", {"timestamp": 0})


@contextmanager
def running(world: worlds.World, *, module: str, arguments: tuple[str, ...] = ()) -> Iterator[None]:
    """Run a process of the service on the world's database for a block."""
    environment = worlds.service_environment(
        world.data_dir,
        world.port,
        SERVICE_DATABASE_URL=world.database_url,
        SERVICE_INTERNAL_TOKEN=world.internal_token,
        **KEYS,
        SERVICE_TEST_CLOCK="1",
        SERVICE_TEST_TOKEN=world.test_token,
    )
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment, cwd=worlds.ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def start_run(world: worlds.World, shop: automation_world.Shop) -> dict[str, Any]:
    """Have the runner take a case and begin; returns the run as it was answered last."""
    issue = {"automation_id": automation_world.AUTOMATION}
    issued = world.call("POST", f"{shop.path}/automation-triggers/issue", issue, shop.runner, idempotency_key="issue")
    receipt = next(item for item in issued["trigger_receipts"] if item["status"] == "issued")
    claim = {"trigger_receipt_id": receipt["receipt_id"], "case_revision": receipt["case"]["case_revision"]}
    case_path = f"/v1/cases/{receipt['case']['case_id']}"
    world.call("POST", f"{case_path}/claims", claim, shop.runner, idempotency_key="claim")
    start = {"trigger_receipt_id": receipt["receipt_id"]}
    run = world.call("POST", f"{shop.path}/automation-runs", start, shop.runner, idempotency_key="start")
    fence = {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}
    path = f"/v1/automation-runs/{run['run_id']}"
    moved: dict[str, Any] = world.call("PATCH", path, fence | {"phase": "running"}, shop.runner, idempotency_key="run")
    return moved


def open_case(world: worlds.World, shop: automation_world.Shop, kind: str) -> str:
    """Report an error that was never seen; returns its case."""
    exception = {"type": kind, "frames": [{"file": "app.py", "function": "pay", "in_app": True}]}
    error = {"level": "error", "message": "The order was lost.", "extra": {"exception": exception}}
    case_id: str = world.call("POST", "/v1/logs/", error, shop.dsn)["case_id"]
    return case_id


async def leave_job(url: str) -> None:
    """Defer a job while no worker runs."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await defer(connection, WAITING)


def wait_until_live(world: worlds.World) -> None:
    """Wait until the API answers."""
    while True:
        with suppress(OSError, SystemExit, EOFError):
            loadgen.call(worlds.HOST, world.port, ("GET", "/health/live", {}, b""))
            return


def fill(world: worlds.World) -> dict[str, Any]:
    """Do the work and leave some of it unfinished; returns what is needed to go on with it."""
    with running(world, module="scripts.load.bench_server"):
        with running(world, module="service.worker", arguments=(str(os.getpid()),)):
            wait_until_live(world)
            world.sign_in()
            shop = automation_world.open_shop(world, "shop")
            first_case = open_case(world, shop, "Lost")
            run = start_run(world, shop)
            world.wait_for_none("select count(*) from unsequenced", 30)
            world.catch_up()
        sign_in = world.call("POST", "/v1/auth/device", {}, None)
        second_case = open_case(world, shop, "Declined")
        project = world.create_project("begun while nobody numbers")
    asyncio.run(leave_job(world.database_url))
    [[unnumbered]] = world.query("select count(*) from unsequenced")
    assert unnumbered, "the work in flight has events without a position"
    [[left_at]] = world.query("select floor(extract(epoch from service_now()))::bigint")
    return {
        "left_at": left_at,
        "unnumbered": unnumbered,
        "owner": shop.owner,
        "runner": shop.runner,
        "ci": shop.ci,
        "dsn": shop.dsn,
        "project_id": shop.id,
        "unnumbered_project_id": project["id"],
        "cases": [first_case, second_case],
        "run": {name: run[name] for name in ("run_id", "state_revision", "lease_epoch")},
        "sign_in": {name: sign_in[name] for name in ("device_code", "user_code")},
        "waiting_task": WAITING.task,
    }


def dump(url: str, path: Path) -> None:
    """Write the whole database as SQL that any client can run."""
    arguments = ["--no-owner", "--no-privileges", "--rows-per-insert=200", f"--dbname={url}"]
    command = [str(wheel_programs() / "pg_dump"), *arguments]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # Without the lines for psql alone, and a setting that only the newest servers have.
    alone = ("\\", "SET transaction_timeout")
    path.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith(alone)))


def main(stem: str) -> None:
    """Make the database and write both files."""
    out = Path(stem).absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    with worlds.World() as world:
        world.port = worlds.free_port()
        world.query("select advance_service_clock(seconds => %s)", AHEAD)
        left = fill(world)
        dump(world.database_url, out.with_suffix(".sql"))
    out.with_suffix(".json").write_text(json.dumps(left, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
