"""Every page of the console, in both themes, wide and on a phone: nothing is wrong with any."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.support.chromium import PHONE, WIDE, Seat, seated
from tests.support.fullscene import GUEST, FullScene, Place
from tests.support.naughty.places import address_of

CUT_OFF = """() => [...document.querySelectorAll(".scroll")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText.slice(0, 60))"""
"""Tables that a person on a wide screen would have to scroll sideways."""
pytestmark = [pytest.mark.shares_server, pytest.mark.timeout(900)]


@pytest.mark.parametrize("who", ["owner", GUEST, "operator"])
def test_no_page_has_a_violation_or_is_too_wide(chromium: Browser, full: FullScene, who: str) -> None:
    with seated(chromium, full.at.server.base_url, full.session(who)) as seat:
        for place in full.places():
            if place.who == who:
                look_at(seat, place)


def look_at(seat: Seat, place: Place) -> None:
    """Look at a place in both themes, and as on a phone. The themes have nothing but other colours."""
    seat.open(place.place)
    seat.troubles += [f"{place.place} links to {link}, where no page is" for link in lost_links(seat)]
    seat.troubles += [f"{place.place} cuts off {text}" for text in seat.page.evaluate(CUT_OFF)]
    seat.axe()
    seat.page.emulate_media(color_scheme="dark")
    seat.axe("color-contrast")
    seat.page.emulate_media(color_scheme="light")
    seat.page.set_viewport_size({"width": PHONE, "height": 844})
    seat.look()
    seat.page.set_viewport_size({"width": WIDE, "height": 900})


def lost_links(seat: Seat) -> list[str]:
    """The links of the page into the console that lead to no page of it."""
    paths: list[str] = seat.page.evaluate(
        "[...document.links].filter((a) => a.host === location.host).map((a) => a.pathname)"
    )
    inside = {path.removeprefix("/console").strip("/") for path in paths if path.startswith("/console")}
    return sorted(place for place in inside if address_of(place) is None)


def test_what_is_in_no_stream_is_read_anew_from_time_to_time(chromium: Browser, full: FullScene) -> None:
    with seated(chromium, full.at.server.base_url, full.session("operator")) as seat:
        seat.page.clock.install()
        seat.open("operator")
        seat.page.get_by_text("Live", exact=True).wait_for()
        with seat.page.expect_response("**/console/operator") as anew:
            seat.page.clock.fast_forward(10_000)
        assert anew.value.ok
        seat.page.evaluate("document.body.dataset.same = ''")
        with seat.page.expect_response("**/console/operator"):
            seat.page.clock.fast_forward(10_000)
        assert seat.page.locator("body[data-same]").count() == 1, "the page itself was not loaded again"


def test_a_chart_tells_its_days_to_pointer_and_keys(chromium: Browser, full: FullScene) -> None:
    """And its deploys are links, which keys reach as well."""
    with seated(chromium, full.at.server.base_url, full.session()) as seat:
        seat.open(f"projects/{full.ids['project_id']}")
        figure = seat.page.locator("figure.days").first
        told, days = figure.locator("[data-told]"), figure.locator("[data-day]")
        days.nth(3).hover(position={"x": 2, "y": 60})
        assert told.inner_text() == days.nth(3).locator("title").text_content()
        figure.locator("svg").focus()
        seat.page.keyboard.press("ArrowRight")
        assert told.inner_text() == days.nth(4).locator("title").text_content()
        seat.page.keyboard.press("Home")
        seat.page.keyboard.press("ArrowLeft")
        assert told.inner_text() == days.nth(0).locator("title").text_content()
        seat.axe()
        figure.locator("a.to-deploy").last.focus()
        seat.page.keyboard.press("Enter")
        seat.page.get_by_role("heading", name="What changed with it").wait_for()


def test_what_a_check_and_a_back_test_show(chromium: Browser, full: FullScene) -> None:
    """Pages that only a form leads to: faults in their places with a difference, and a plot."""
    with seated(chromium, full.at.server.base_url, full.session()) as seat:
        seat.open(f"projects/{full.ids['project_id']}/automation/edit")
        entered = seat.page.get_by_label("Contract in JSON")
        good = entered.input_value()
        entered.fill(good.replace('"max_runs_per_day": 10', '"max_runs_per_day": 0').replace('"name"', '"nome"'))
        seat.page.get_by_role("button", name="Check and compare").click()
        seat.page.locator(".source .line.at", has_text='"max_runs_per_day": 0').wait_for()
        seat.axe()
        seat.page.set_viewport_size({"width": PHONE, "height": 844})
        seat.look()
        seat.page.get_by_label("Contract in JSON").fill(good)
        seat.page.get_by_role("button", name="Test on these days").click()
        seat.page.get_by_role("heading", name="Back-test", exact=True).wait_for()
        seat.axe()
