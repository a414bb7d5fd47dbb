"""The row of contention: many runners claim one case at once, many starts charge one ledger at once."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scripts.bench.chains import ask, open_case
from scripts.bench.figures import Figures, console
from scripts.load import automation_world, loadgen, worlds
from scripts.load.automation_world import AUTOMATION, Shop

# Contention, for `make bench`: many runners claim one case at once, many starts charge one ledger at once.

RIVALS = 64
ROUNDS = 8
STARTS = 320
CAP = 256
AT_ONCE = 32


@dataclass(frozen=True)
class Offer:
    """A receipt, as far as claiming and starting need it."""

    receipt_id: str
    case_id: str
    case_revision: int


def offers(world: worlds.Service, shop: Shop, count: int) -> list[Offer]:
    """Open cases and have receipts issued for all of them."""
    prefix = f"E{secrets.token_hex(4)}"

    def opening(number: int) -> loadgen.Client:
        for turn in range(number, count, 16):
            yield from open_case(shop, f"{prefix}{turn}")

    world.load(opening, 16, 120)
    issue = f"{shop.path}/automation-triggers/issue"
    found: dict[str, Offer] = {}
    while len(found) < count:
        issued = world.call("POST", issue, {"automation_id": AUTOMATION}, shop.runner)["trigger_receipts"]
        new = {
            item["receipt_id"]: Offer(item["receipt_id"], item["case"]["case_id"], item["case"]["case_revision"])
            for item in issued
        }
        if new.keys() <= found.keys():
            raise SystemExit(f"only {len(found)} of {count} receipts were issued")
        found |= new
    return list(found.values())


def claim_of(offer: Offer) -> tuple[str, dict[str, Any]]:
    """Path and body of a claim."""
    body = {"trigger_receipt_id": offer.receipt_id, "case_revision": offer.case_revision}
    return f"/v1/cases/{offer.case_id}/claims", body


def race(world: worlds.Service, runners: Sequence[str], offer: Offer) -> tuple[float, Counter[int]]:
    """Claim one case as all runners; a retryable refusal is retried at once.

    Returns the seconds until every runner has its answer, and the answers by status.
    """
    path, body = claim_of(offer)
    waiting, seconds, statuses = list(runners), 0.0, Counter[int]()
    while waiting:
        requests = [("POST", path, _headers(runner), json.dumps(body).encode()) for runner in waiting]
        taken, answers = loadgen.at_once(worlds.HOST, world.port, requests)
        seconds += taken
        statuses.update(status for status, _, _ in answers)
        waiting = [runner for runner, (status, _, _) in zip(waiting, answers, strict=True) if status == 503]
    return seconds, statuses


def _headers(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}", "content-type": "application/json"}


def race_for_cases(world: worlds.Service) -> tuple[float, Counter[int]]:
    """Race for one case after another; returns the slowest race in seconds, and all answers by status.

    Ends the program unless every race has one winner and every other runner a definite refusal.
    """
    shop = automation_world.open_shop(world, "rivals", max_cases_per_sweep=100)
    runners = [automation_world.mint(world, shop.id, "automation_runner") for _ in range(RIVALS)]
    slowest, total = 0.0, Counter[int]()
    for turn, offer in enumerate(offers(world, shop, ROUNDS + 1)):
        seconds, statuses = race(world, runners, offer)
        if (statuses[201], statuses[409]) != (1, RIVALS - 1):
            raise SystemExit(f"{RIVALS} rivals for one case were answered {dict(statuses)}")
        if turn:  # The first one warms up.
            slowest = max(slowest, seconds)
            total += statuses
    return slowest, total


def race_for_budget(world: worlds.Service) -> tuple[float, Counter[int]]:
    """Start more runs at once than the budget of one automation allows.

    Returns decisions per second, and the answers by status. Ends the program unless exactly the budget was spent.
    """
    shop = automation_world.open_shop(world, "ledger", max_cases_per_sweep=100, max_runs_per_day=CAP)
    waiting = offers(world, shop, STARTS)

    def claiming(number: int) -> loadgen.Client:
        for offer in waiting[number::16]:
            path, body = claim_of(offer)
            yield from ask("POST", path, body, shop.runner, 201)

    world.load(claiming, 16, 120)

    def starting(number: int) -> loadgen.Client:
        for offer in waiting[number::AT_ONCE]:
            body = {"trigger_receipt_id": offer.receipt_id}
            answer = yield from ask("POST", f"{shop.path}/automation-runs", body, shop.runner, 201, 409)
            if "error" in answer and answer["error"]["code"] != "budget_exhausted":
                raise SystemExit(f"a start was refused with {answer['error']['code']}")

    stats = world.load(starting, AT_ONCE, 120)
    query = "select count(*) from events where topic = 'ledger.run_charged.v1' and project_id = %s"
    [[charged]] = world.query(query, shop.id)
    if not stats.statuses[201] == charged == CAP:
        raise SystemExit(f"of a budget of {CAP} runs {charged} were charged and {stats.statuses[201]} begun")
    return sum(stats.statuses.values()) / stats.seconds, stats.statuses


def measure_claims(figures: Figures, world: worlds.World) -> None:
    """Race runners for one case, and for the budget of one automation."""
    slowest, claims = race_for_cases(world)
    console.print(f"  {RIVALS} rivals, {ROUNDS} races: {dict(claims)}")
    figures.add("64 rivals for one case, slowest race", slowest, "s", yardstick=1, promised=1, most=True)
    rate, starts = race_for_budget(world)
    console.print(f"  {STARTS} starts on a budget of {CAP}: {dict(starts)}")
    figures.add("starts on one ledger, 32 at once", rate, "/s", yardstick=200, promised=1)
