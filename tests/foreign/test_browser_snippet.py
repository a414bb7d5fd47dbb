"""The browser's snippet in a headless Chromium: another origin, preflights, retries, and a page that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.foreign.runs import MARKER, Behind
from tests.support.rounds import wait_until
from tests.support.snippets.browser import Page, showing

pytestmark = [pytest.mark.clients, pytest.mark.foreign]

SECONDS = 60
MESSAGE = "RangeError: Checkout failed: the card was declined"
EVENT = {"checkout_completed": 1}
LOGS, ANALYTICS = "/v1/logs/", "/v1/analytics/"


@pytest.fixture
def project(behind: Behind) -> dict[str, Any]:
    return behind.project()


@pytest.fixture
def page(behind: Behind, project: dict[str, Any], tmp_path: Path) -> Iterator[Page]:
    with showing(tmp_path, behind.front, behind.snippet("browser"), project["dsn"]) as shown:
        wait_until(lambda: "/service-reports.js" in shown.shown, SECONDS)
        yield shown


def posts(behind: Behind, project: dict[str, Any]) -> list[tuple[str, int]]:
    return [(post.path, post.status) for post in behind.front.posts[project["dsn"]]]


def test_an_error_and_an_event_arrive(behind: Behind, project: dict[str, Any], page: Page) -> None:
    """From another origin; the error is one case with its frame, the event is counted once."""
    page.order("try")
    wait_until(lambda: behind.arrived(project["id"]) == ([MESSAGE], EVENT), SECONDS)
    assert posts(behind, project) == [(LOGS, 202), (ANALYTICS, 202)]
    error = behind.latest(project["id"])
    frame = error["exception"]["frames"][0]
    assert frame["file"] == f"{page.url}service-reports.js"
    assert frame["in_app"] is True
    assert error["tags"] == {"area": "checkout"}


def test_what_nobody_caught_is_reported(behind: Behind, project: dict[str, Any], page: Page) -> None:
    """Errors of the page and rejections without a handler are two cases."""
    page.order("throw")
    page.order("reject")
    expected = ["SyntaxError: The answer is no JSON", "TypeError: The cart is empty"]
    wait_until(lambda: sorted(behind.arrived(project["id"])[0]) == expected, SECONDS)


def test_a_marker_of_the_session_is_in_each_report(behind: Behind, project: dict[str, Any], page: Page) -> None:
    """The error has it as a tag, the event as a property; the bundle does not hold it."""
    page.order("mark")
    page.order("try")
    wait_until(lambda: len(posts(behind, project)) == 2, SECONDS)
    error, event = (post.body for post in behind.front.posts[project["dsn"]])
    assert error["tags"] == {"area": "checkout", "service_onboarding_proof": MARKER}
    assert event["properties"] == {"plan": "pro", "service_onboarding_proof": MARKER}
    assert MARKER not in page.served["/service-reports.js"][1]


def test_a_refused_report_is_sent_again(behind: Behind, project: dict[str, Any], page: Page) -> None:
    """After a 429 it waits for the second in Retry-After, sends the same report again, and both arrive once."""
    behind.front.refuse(project["dsn"], 1)
    page.order("try")
    wait_until(lambda: behind.arrived(project["id"]) == ([MESSAGE], EVENT), SECONDS)
    assert posts(behind, project) == [(LOGS, 429), (LOGS, 202), (ANALYTICS, 202)]
    refused, again, other = behind.front.posts[project["dsn"]]
    assert refused.key == again.key != other.key
    assert refused.key
    assert again.at - refused.at >= 0.9


def test_a_page_gives_up_quietly(behind: Behind, project: dict[str, Any], page: Page) -> None:
    """Refused each time, it sends the report three times and forgets what waits; later reports arrive."""
    behind.front.refuse(project["dsn"], 3)
    page.order("try")
    wait_until(lambda: posts(behind, project) == [(LOGS, 429)] * 3, SECONDS)
    for _ in range(20):  # the page may be hearing of the last refusal just now, and then forgets this too
        page.order("try")
        with suppress(AssertionError):
            wait_until(lambda: (ANALYTICS, 202) in posts(behind, project), 3)
            break
    first, later = behind.front.posts[project["dsn"]][:3], behind.front.posts[project["dsn"]][3:]
    assert len({post.key for post in first}) == 1
    assert [(post.path, post.status) for post in later] == [(LOGS, 202), (ANALYTICS, 202)]
    assert first[0].key not in {post.key for post in later}
    assert behind.arrived(project["id"]) == ([MESSAGE], EVENT)


def test_a_page_that_goes_away_hands_its_reports_over(behind: Behind, project: dict[str, Any], page: Page) -> None:
    """What waits for its turn when the page is left arrives by a beacon, with the DSN in the address."""
    behind.front.refuse(project["dsn"], 1, after="30")
    page.order("try")
    wait_until(lambda: posts(behind, project) == [(LOGS, 429)], SECONDS)
    page.order("leave")
    wait_until(lambda: behind.arrived(project["id"]) == ([MESSAGE], EVENT), 20)
    beacons = {(post.path, post.status, post.key) for post in behind.front.posts[project["dsn"]][1:]}
    assert beacons == {(LOGS, 202, None), (ANALYTICS, 202, None)}
