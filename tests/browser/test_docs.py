"""The documentation in a Chromium: the sidebar, the buttons that copy, both themes, and a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.support.chromium import PHONE, WIDE, seated
from tests.support.server import ServerHandle

pytestmark = [pytest.mark.shares_server, pytest.mark.timeout(300)]
PLACES = ("", "how-to/sentry", "tutorial/first-steps", "machines/run", "api/create_project", "search?q=lease")


def test_no_page_has_a_violation_or_is_too_wide(chromium: Browser, server: ServerHandle) -> None:
    """In both themes, wide and on a phone."""
    with seated(chromium, server.base_url) as seat:
        for place in PLACES:
            seat.page.goto(f"{server.base_url}/docs/{place}".rstrip("/"))
            seat.look()
            seat.axe()
            seat.page.emulate_media(color_scheme="dark")
            seat.axe("color-contrast")
            seat.page.emulate_media(color_scheme="light")
            seat.page.set_viewport_size({"width": PHONE, "height": 844})
            seat.look()
            seat.page.set_viewport_size({"width": WIDE, "height": 900})


def test_a_button_copies_the_commands_without_their_answers(chromium: Browser, server: ServerHandle) -> None:
    """A block without prompts is copied whole."""
    with seated(chromium, server.base_url, permissions=["clipboard-read", "clipboard-write"]) as seat:
        seat.page.goto(f"{server.base_url}/docs/tutorial/first-steps")
        block = seat.page.locator(".copied").filter(has_text="$ ").first
        block.get_by_role("button", name="Copy").click()
        block.get_by_text("Copied", exact=True).wait_for()
        copied = seat.page.evaluate("navigator.clipboard.readText()")
        prompts = [line for line in str(block.locator("pre").text_content()).splitlines() if line.startswith("$ ")]
        assert copied.splitlines()[0] == prompts[0].removeprefix("$ ")
        assert "$ " not in copied
        seat.page.goto(f"{server.base_url}/docs/how-to/sentry")
        whole = seat.page.locator(".copied").filter(has_text="import sentry_sdk").first
        whole.get_by_role("button", name="Copy").click()
        whole.get_by_text("Copied", exact=True).wait_for()
        assert seat.page.evaluate("navigator.clipboard.readText()") == str(whole.locator("pre").text_content()).rstrip()


def test_the_sidebar_leads_from_page_to_page(chromium: Browser, server: ServerHandle) -> None:
    """By keys, and without scripts. It shows the section of the page, and marks the page."""
    with seated(chromium, server.base_url, scripts=False) as seat:
        seat.page.goto(f"{server.base_url}/docs/how-to/sentry")
        pages = seat.page.get_by_role("navigation", name="All pages")
        assert pages.get_by_role("link").filter(visible=True).count() > 30
        assert str(pages.locator("[aria-current=page]").get_attribute("href")) == "/docs/how-to/sentry"
        pages.get_by_text("Explanation", exact=True).focus()
        seat.page.keyboard.press("Enter")
        pages.get_by_role("link", name="Fences").focus()
        seat.page.keyboard.press("Enter")
        seat.page.get_by_role("heading", name="Fences", level=1).wait_for()
        assert seat.page.locator(".copied").count() == 0
