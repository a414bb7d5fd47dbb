"""A weekly review over HTTP: people in two periods, the run of a slot, its source and its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2
import psycopg

from tests.support.automation_world import EVENTS, closed
from tests.support.loop.http_scene import HttpScene
from tests.support.schedules import AUTOMATION, Schedule, schedule

MINIMUM = 3
STEPS = len(EVENTS)


class Weekly:
    """A project whose slot has come: `prior` and `current` say how many people reached each step."""

    def __init__(self, at: HttpScene, **budgets: Any) -> None:
        self.at = at
        self.clock: Schedule = schedule(at, minimum=MINIMUM, **budgets)
        self.run_id = ""
        self.period_start = self.period_end = 0

    @property
    def path(self) -> str:
        return f"/v1/automation-runs/{self.run_id}"

    def begin(self, prior: Sequence[int] = (), current: Sequence[int] = (), *, settled: bool = True) -> Weekly:
        """Start the run of the next slot, with people in its two periods, once these have settled or at once."""
        self.clock.move_to(self.clock.next_slot())
        [receipt] = self.clock.issue()["trigger_receipts"]
        self.period_start, self.period_end = receipt["schedule"]["period_start"], receipt["schedule"]["period_end"]
        self.visit("prior", self.period_start - 3600, prior)
        self.visit("current", self.period_end - 3600, current)
        answer = self.clock.start(receipt, key=f"start-{receipt['receipt_id']}")
        self.run_id = self.at.must(answer, 201)["run_id"]
        if settled:
            self.clock.move_to(self.period_end + 5)
        return self

    def visit(self, who: str, since: int, reached: Sequence[int]) -> None:
        """People of whom `reached` says how many came to each step, a second a step."""
        people = [
            (EVENTS[step], f"{who}-{person}", since + step)
            for step, count in enumerate(reached)
            for person in range(count)
        ]
        keep_events(self.at.world.url, self.at.world.project_id, people)

    def run(self) -> dict[str, Any]:
        return self.at.must(self.at.call("GET", self.path, who="owner"), 200)

    def token(self) -> dict[str, Any]:
        run = self.run()
        return {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}

    def source(self, token: Any = None, *, who: str = AUTOMATION, **how: Any) -> httpx2.Response:
        return self.at.post(f"{self.path}/report-source", self.token() if token is None else token, who=who, **how)

    def record(
        self, report: Any, token: dict[str, Any] | None = None, *, who: str = AUTOMATION, **how: Any
    ) -> httpx2.Response:
        body = (token or self.token()) | {"report": report}
        return self.at.post(f"{self.path}/actions/record-report", body, who=who, **how)

    def left(self) -> set[str]:
        """The operations that a step out of turn is told are left."""
        answer = self.at.call("PATCH", self.path, self.token() | {"status": "succeeded"}, who=AUTOMATION)
        details = closed(answer, 409, "run_transition_not_allowed")["details"]
        return {step["operation_id"] for step in details["allowed_next"]}

    def act(self, what: str, body: dict[str, Any], **how: Any) -> httpx2.Response:
        return self.at.post(f"{self.path}/{what}", self.token() | body, who=AUTOMATION, **how)


def keep_events(database_url: str, project_id: str, people: Sequence[tuple[str, str, int]]) -> None:
    """Store events as if they had come before: the name, the person and the epoch second of each."""
    with psycopg.connect(database_url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
            "values (%s, %s, gen_random_uuid(), %s, %s, '{}')",
            [(project_id, at, event, person) for event, person, at in people],
        )


def report_on(source: dict[str, Any], *findings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A report on a source, with these findings, or with one of each kind."""
    return {
        "kind": "funnel_review",
        "period_start": source["period_start"],
        "period_end": source["period_end"],
        "source_hash": source["source_hash"],
        "findings": list(findings) or [metric(source), hypothesis(), gap()],
        "limitations": ["Two weeks are few."],
        **changes,
    }


def metric(source: dict[str, Any], step: int = STEPS, measure: str = "users", **changes: Any) -> dict[str, Any]:
    """A metric that says what the source says of a step."""
    row = source["rows"][step - 1]
    prior, current = row[f"prior_{measure}"], row[f"current_{measure}"]
    return {
        "kind": "metric",
        "metric": f"{measure} at step {step}",
        "unit": "people",
        "prior_value": prior,
        "current_value": current,
        "change": current - prior,
        "source_columns": [f"prior_{measure}", f"current_{measure}"],
        **changes,
    }


def hypothesis(**changes: Any) -> dict[str, Any]:
    """A guess."""
    return {
        "kind": "hypothesis",
        "rank": 1,
        "title": "The form asks for too much",
        "rationale": "Fewer people went on from it.",
        "expected_impact": "A few more projects a week.",
        "confidence": "low",
        "evidence_columns": ["current_conversion"],
        "suggested_human_next_step": "Try a shorter form.",
        **changes,
    }


def gap() -> dict[str, Any]:
    """A gap that limited the review."""
    return {"kind": "readiness_gap", "code": "no_referrers", "message": "Where people came from is not recorded."}
