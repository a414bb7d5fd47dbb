"""A person on call, who finds the broken case, reads why nobody works on it, and stops the automation."""

from __future__ import annotations

from functools import partial

import pytest
from playwright.sync_api import Browser

from tests.support.automation_world import closed
from tests.support.chromium import seated
from tests.support.hands import Hands
from tests.support.loop.http_scene import HttpScene
from tests.support.sessions import open_session

pytestmark = pytest.mark.shares_server

PROJECT = "Test project"
MOST_CLICKS = 3
FRESH_SECONDS = 15 * 60


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_person_on_call_stops_the_automation(at: HttpScene, chromium: Browser, scripts: bool) -> None:
    secret = at.world.run(partial(open_session, user_id=at.world.users["member"])).secret
    at.wait(FRESH_SECONDS + 1)  # A stop asks for no newer sign-in.
    at.running()
    at.error(1, message="Basket is empty")
    assert at.issue()["trigger_receipts"] == []
    with seated(chromium, at.server.base_url, secret, scripts=scripts) as seat:
        seat.open()
        on_call = Hands(seat)
        find_the_case(on_call)
        read_why(on_call)
        before = on_call.clicks
        stop(on_call)
        assert on_call.clicks - before <= MOST_CLICKS
    assert at.must(at.world.call("GET", at.world.contract))["paused"]
    closed(at.act("usage", {"turns": 1}), 409, "automation_paused")


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_the_stop_is_three_clicks_from_the_first_page(at: HttpScene, chromium: Browser, scripts: bool) -> None:
    at.prepare()
    secret = at.world.run(partial(open_session, user_id=at.world.users["member"])).secret
    with seated(chromium, at.server.base_url, secret, scripts=scripts) as seat:
        seat.open()
        on_call = Hands(seat)
        on_call.follow(PROJECT)
        stop(on_call)
        assert on_call.clicks <= MOST_CLICKS
    assert at.must(at.world.call("GET", at.world.contract))["paused"]


def find_the_case(on_call: Hands) -> None:
    """Look for the words of the report, and open the case."""
    on_call.follow(PROJECT)
    on_call.reads("Payment declined for order 17", "Basket is empty")
    on_call.turn_to("Cases")
    on_call.type("Title or message", "Basket")
    on_call.press("Filter")
    on_call.sees_no("Payment declined")
    on_call.follow("Basket is empty")


def read_why(on_call: Hands) -> None:
    """The case says that it was passed over, and by which check."""
    on_call.follow("Why")
    on_call.reads("would not be offered", "event count")


def stop(on_call: Hands) -> None:
    """Stop the automation from the page where one is."""
    on_call.unfold("Stop automation")
    on_call.press("Stop now")
    on_call.reads("The automation of this project is stopped.")
