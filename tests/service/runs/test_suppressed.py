"""A suppression holds for receipts from its answer on, whenever the cases are gone through (R-CASE-12, G-053)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.service.runs.test_decision import listed
from tests.support.loop.http_scene import HttpScene
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

RIVALS = 6


@pytest.fixture
def idle(at: HttpScene, server: ServerHandle) -> Iterator[HttpScene]:
    """A scene whose worker stands still: no sweep looks for work, and nothing goes through the cases."""
    workers = server.processes("service.process.worker")
    assert workers
    for worker in workers:
        worker.suspend()
    try:
        yield at
    finally:
        for worker in workers:
            worker.resume()


def suppress(at: HttpScene, action: str, **more: Any) -> None:
    body = {"fingerprint_pattern": "*", "action": action, **more}
    at.must(at.call("POST", f"{at.project}/suppressions", body, who="owner"), 201)


def matter(at: HttpScene) -> None:
    at.prepare()
    for _ in range(2):
        at.error()


@pytest.mark.parametrize("action", ["auto_ignore", "auto_resolve"])
def test_no_receipt_is_issued_for_a_case_that_a_rule_matches(idle: HttpScene, action: str) -> None:
    """The look says why, and leaves one record of it."""
    matter(idle)
    suppress(idle, action)
    for _ in range(3):
        answer = idle.issue()
        assert (answer["trigger_receipts"], [item["code"] for item in answer["skipped"]]) == ([], ["suppressed"])
    [record] = listed(idle, f"?case_id={idle.case_id}")
    assert (record["verdict"], record["code"], record["receipt_id"]) == ("passed_over", "suppressed", "")
    [failed] = [check for check in record["checks"] if not check["passed"]]
    assert failed["check"] == "not_suppressed"


def test_a_hint_suppresses_nothing(idle: HttpScene) -> None:
    matter(idle)
    suppress(idle, "prompt_hint", hint_text="Look at the provider.")
    assert len(idle.issue()["trigger_receipts"]) == 1


def test_no_look_that_begins_after_the_rule_issues_a_receipt(idle: HttpScene) -> None:
    """However the two race; what was issued before stays as it is."""
    matter(idle)
    made = False

    def look(_: int) -> bool:
        """Look until one after the rule is through; returns whether a receipt came of a look that began after it."""
        late = False
        for _ in range(200):
            after = made
            if idle.issue()["trigger_receipts"] and after:
                late = True
            if after:
                return late
        raise AssertionError("the rule was never made")

    with ThreadPoolExecutor(RIVALS) as crowd:
        looks = [crowd.submit(look, number) for number in range(RIVALS)]
        suppress(idle, "auto_ignore")
        made = True
        late = [one.result() for one in looks]
    found = idle.must(idle.call("GET", f"{idle.project}/automation-trigger-receipts", who="owner"), 200)
    issued = found["trigger_receipts"]
    assert len(issued) <= 1
    assert not any(late) or issued, "what is shown again was issued before"
    codes = [record["code"] for record in listed(idle, f"?case_id={idle.case_id}")]
    assert codes.count("suppressed") <= 1
