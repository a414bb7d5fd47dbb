"""What people do at the console's pages in a Chromium: they press, follow, open, type and read."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Locator

from tests.support.chromium import Seat
from tests.support.loaded import run_command
from tests.support.server import ServerHandle


class Hands:
    """A person at a window who uses nothing but what the page shows. `clicks` counts."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.page = seat.page
        self.clicks = 0

    def click(self, one: Locator) -> None:
        """Click something, and look at the page after it."""
        one.click()
        self.clicks += 1
        self.page.wait_for_load_state()
        self.seat.look()

    def press(self, button: str, within: str = "body") -> None:
        """Press a button by its words."""
        self.click(self.page.locator(within).get_by_role("button", name=button, exact=True))

    def follow(self, link: str, within: str = "main") -> None:
        """Follow a link by its words."""
        self.click(self.page.locator(within).get_by_role("link", name=link, exact=True))

    def turn_to(self, section: str) -> None:
        """Turn to a section of the project."""
        self.follow(section, "nav.side")

    def unfold(self, words: str) -> None:
        """Open what is folded away, by its words."""
        self.click(self.page.locator("summary").get_by_text(words, exact=True))

    def type(self, label: str, text: str) -> None:
        """Fill a field by its label."""
        self.page.get_by_label(label, exact=True).fill(text)

    def fill(self, fields: dict[str, str]) -> None:
        """Fill fields by their names, where several have one label."""
        for name, value in fields.items():
            field = self.page.locator(f'[name="{name}"]')
            if field.evaluate("one => one.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)

    def reads(self, *texts: str) -> None:
        """The page says this. Waits for a page that follows changes."""
        for text in texts:
            self.page.locator("main").get_by_text(text).filter(visible=True).first.wait_for()

    def sees_no(self, *texts: str) -> None:
        """The page does not say this."""
        for text in texts:
            assert text not in self.seat.text, f"{self.seat.place} says {text!r}"

    def copied(self, label: str) -> str:
        """The value beside a label, as a person copies it."""
        [value] = self.page.locator("dt", has_text=re.compile(f"^{re.escape(label)}$")).locator("+ dd code").all()
        return value.inner_text()


def typed(server: ServerHandle, *words: str) -> str:
    """What a command of the service prints on the machine of a server."""
    done = run_command(*words, env=server.env, cwd=server.directory)
    done.check_returncode()
    return done.stdout


def link_of(server: ServerHandle, email: str) -> str:
    """The link that signs a person in."""
    said: dict[str, Any] = json.loads(typed(server, "console", "open", "--email", email, "--json"))
    return str(said["link"])
