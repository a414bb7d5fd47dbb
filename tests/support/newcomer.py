"""A person with a new project, who wires a product by the console's pages or by a how-to, and looks at what arrives."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.support.accounts import checked
from tests.support.chromium import Seat, open_chromium, seated
from tests.support.hands import Hands, link_of, typed
from tests.support.server import ServerHandle

FRAMEWORKS = Path(__file__).parents[2] / "docs" / "how-to" / "frameworks.md"
HERE_ALONE = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
SECONDS = 60.0
"""At most, until an error is shown."""


def snippets_of(framework: str) -> list[str]:
    """The snippets that the how-to on frameworks has for one, in its order."""
    text = FRAMEWORKS.read_text(encoding="utf-8")
    [section] = [part for part in text.split("\n## ")[1:] if framework in part.splitlines()[0].split(" and ")]
    found = re.findall(r"^```[a-z]+\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found, f"{framework} has no snippet"
    return found


class Newcomer:
    """Signs in and makes a project. `snippets` are those that its page shows, by their headings."""

    def __init__(self, seat: Seat, server: ServerHandle) -> None:
        self.hands, self.server = Hands(seat), server
        self._email = f"new-{uuid.uuid4().hex[:8]}@example.com"
        seat.page.goto(link_of(server, self._email))
        self.hands.press("Sign in")
        self.hands.type("Name", "Shop")
        self.hands.press("Create the project")
        self.hands.reads("What comes next")
        shown = seat.page.locator("h3").all()
        code = "xpath=following-sibling::div[1]//code"
        self.snippets = {one.inner_text(): one.locator(code).inner_text() for one in shown}
        overview = seat.page.get_by_role("link", name="The overview", exact=True).get_attribute("href") or ""
        self.project = overview.removeprefix("/console/")

    def sees(self, part: str, *texts: str) -> None:
        """A page of the project has these texts."""
        self.hands.seat.open(f"{self.project}/{part}")
        self.hands.reads(*texts)

    def variables(self) -> dict[str, str]:
        """What the how-to sets: each DSN as the project shows it, and the address of the service."""
        shown = self._ask(f"/v1/{self.project}/dsn")
        told = {"SENTRY_DSN": shown["sdks"]["sentry_dsn"], "SERVICE_DSN": shown["dsn"]}
        return {**told, "SERVICE_URL": self.server.base_url, **HERE_ALONE}

    def meets(self, title: str) -> dict[str, Any]:
        """The one error of the project, once it is there: in its case in the list, and on its own page."""
        give_up = time.monotonic() + SECONDS
        while not (cases := self._ask(f"/v1/{self.project}/cases")["cases"]):
            assert time.monotonic() < give_up, "no error has arrived"
            time.sleep(0.1)
        assert [case["title"] for case in cases] == [title]
        self.sees("cases", title)
        self.hands.follow(title)
        self.hands.reads(title)
        [event] = self._ask(f"/v1/cases/{cases[0]['id']}/events")["events"]
        return self._ask(f"/v1/cases/{cases[0]['id']}/events/{event['id']}")

    @cached_property
    def _key(self) -> str:
        """A key of the person, for programs."""
        return str(json.loads(typed(self.server, "keys", "create", "--email", self._email, "--json"))["api_key"])

    def _ask(self, path: str) -> dict[str, Any]:
        with self.server.client(self._key) as client:
            return checked(client.get(path))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def newcomer(server: ServerHandle, chromium: Browser) -> Iterator[Newcomer]:
    with seated(chromium, server.base_url) as seat:
        yield Newcomer(seat, server)
