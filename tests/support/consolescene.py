"""The console as the people of a scene of automation see it, for tests that wait for nothing in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx2

from tests.support import seen
from tests.support.console import Browser, Shown, ShownForm
from tests.support.loop.http_scene import HttpScene
from tests.support.sessions import open_operator, open_session

PATIENCE = 60


class Watcher:
    """A person at a browser, one step after the other."""

    def __init__(self, browser: Browser, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.browser = browser
        self.run = run

    def open(self, place: str, status: int = 200) -> Shown:
        shown: Shown = self.run(self.browser.open(place, status))
        return shown

    def send(self, form: ShownForm, status: int = 200, **entered: str) -> Shown:
        shown: Shown = self.run(self.browser.send(form, status, **entered))
        return shown

    def forge(self, form: ShownForm, status: int = 403, **entered: str) -> Shown:
        shown: Shown = self.run(self.browser.forge(form, status, **entered))
        return shown

    def post(self, action: str, fields: list[tuple[str, str]], status: int = 200) -> Shown:
        shown: Shown = self.run(self.browser.post(action, fields, status))
        return shown

    def get(self, place: str) -> httpx2.Response:
        """What a place answers, be it a page or not."""
        headers = {"cookie": f"service_session={self.browser.secret}"}
        answer: httpx2.Response = self.run(self.browser.client.get(f"/console/{place}", headers=headers))
        return answer

    def sees(self, place: str, text: str) -> Shown:
        """A page once it has a text: events get their positions a moment after their command."""
        give_up = time.monotonic() + PATIENCE
        while text not in (shown := self.open(place)).text:
            assert time.monotonic() < give_up, f"no {text!r} in {shown.text}"
            time.sleep(0.1)
        return shown


class People:
    """The people of a scene: an owner, a member and a stranger, and the operator of the installation."""

    def __init__(self, watchers: dict[str, Watcher]) -> None:
        self.owner, self.member, self.stranger, self.operator = (watchers[name] for name in NAMES)


NAMES = ("owner", "member", "stranger", "operator")


@contextmanager
def open_people(at: HttpScene) -> Iterator[People]:
    """Give each person of a scene a browser, signed in."""
    at.world.users[NAMES[-1]] = at.world.run(open_operator)
    secrets = {name: at.world.run(partial(open_session, user_id=at.world.users[name])).secret for name in NAMES}
    with asyncio.Runner() as runner:
        client = seen.async_client(at.server.base_url, timeout=60)
        browsers = {name: Browser(client, secret) for name, secret in secrets.items()}
        try:
            yield People({name: Watcher(browser, runner.run) for name, browser in browsers.items()})
        finally:
            runner.run(client.aclose())
