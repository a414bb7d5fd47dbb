"""A project with one automation that a clock wakes, at any moment of that clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from statemachines.contracts.cron import latest_firing, next_firing, parse_cron
from statemachines.contracts.playbook import assemble_entry, find_template
from tests.support.automation_world import EVENTS
from tests.support.loop.http_scene import HttpScene
from tests.support.playbook_samples import REVIEW, assertions_of, bindings_of

AUTOMATION = "review"
BERLIN = "Europe/Berlin"
DAILY = "30 2 * * *"
WINDOW = 3600


@dataclass
class Schedule:
    """A project with one automation that a clock wakes."""

    at: HttpScene
    cron: str

    @property
    def now(self) -> int:
        [[now]] = self.sql("select floor(extract(epoch from service_now()))::bigint")
        return int(now)

    def move_to(self, moment: int) -> None:
        """Move the clock on to a moment, without waking anybody."""
        self.sql(
            "update service_clock set offset_seconds = offset_seconds + greatest(0, %s - "
            "floor(extract(epoch from service_now())))::bigint returning 0",
            moment,
        )

    def next_slot(self) -> int:
        return next_firing(parse_cron(self.cron), BERLIN, self.now)

    def last_slot(self) -> int:
        return latest_firing(parse_cron(self.cron), BERLIN, self.now)

    def issue(self, *, who: str = AUTOMATION) -> dict[str, Any]:
        path = f"{self.at.project}/automation-triggers/issue"
        return self.at.must(self.at.post(path, {"automation_id": AUTOMATION}, who=who), 200)

    def receipts(self, query: str = "") -> list[dict[str, Any]]:
        path = f"{self.at.project}/automation-trigger-receipts{query}"
        found: list[dict[str, Any]] = self.at.must(self.at.call("GET", path, who=AUTOMATION), 200)["trigger_receipts"]
        return found

    def start(self, receipt: dict[str, Any], key: str = "start", who: str = AUTOMATION) -> Any:
        body = {"trigger_receipt_id": receipt["receipt_id"]}
        return self.at.post(f"{self.at.project}/automation-runs", body, key=key, who=who)

    def sql(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.at.world.url, autocommit=True) as connection:
            return connection.execute(query.encode(), params).fetchall()


def schedule(at: HttpScene, cron: str = DAILY, *, minimum: int = 100, **budgets: Any) -> Schedule:
    """Save and enable the contract, with all that it needs; `minimum` people make a sample."""
    world = at.world
    world.map_signals(*EVENTS)
    world.mint("automation_runner", AUTOMATION)
    world.secrets["dsn"] = at.must(world.call("GET", f"{at.project}/dsn"))["dsn"]
    for event in EVENTS:
        at.must(at.call("POST", "/v1/analytics/", {"event": event, "distinct_id": "u1"}, who="dsn"), 202)
    bindings = bindings_of(REVIEW, AUTOMATION)
    bindings["schedule"] = {"cron": cron, "timezone": BERLIN, "start_window_seconds": WINDOW}
    bindings["funnel"]["minimum_sample_size"] = minimum
    bindings["budgets"] |= budgets
    entry = assemble_entry(find_template(REVIEW), bindings, assertions_of(REVIEW))
    at.must(world.call("PUT", world.contract, {"policy_version": 2, "automations": [entry]}), 201)
    at.enable()
    return Schedule(at, cron)
