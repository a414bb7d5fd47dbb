"""People at the console's pages in a Chromium, watched for whatever no page may do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    Response,
    sync_playwright,
)

from tests.deploy.programs import program
from tests.support.snippets.browser import CHROMIUM

Theme = Literal["light", "dark"]
COOKIE = "service_session"
WIDE, PHONE = 1280, 390
HEIGHT = 900
PATIENCE = 60_000
"""Milliseconds to wait for a page or an element on a busy machine."""
AXE = Path(__file__).parents[2] / ".clients" / "node_modules" / "axe-core" / "axe.min.js"
TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
TOO_WIDE = """() => {
  const root = document.documentElement;
  if (root.scrollWidth <= root.clientWidth) return [];
  const out = [...document.body.querySelectorAll("*")].filter((one) =>
    one.getBoundingClientRect().right > root.clientWidth + 1 && !one.closest(".scroll"));
  return [`${root.scrollWidth} > ${root.clientWidth}`, ...out.slice(0, 8).map((one) =>
    `${one.tagName} ${one.className} ${(one.textContent || "").trim().slice(0, 40)}`)];
}"""
RUN_AXE = """async (rules) => (await axe.run(document, {
  resultTypes: ["violations"], preload: false, ...(rules.length ? { runOnly: rules } : {}),
})).violations.flatMap((found) => found.nodes.map((node) => `${found.id}: ${node.target.join(" ")} ${
  node.any.concat(node.all, node.none).map((one) => one.message).join("; ").slice(0, 300)}`))"""
LEFT = "net::ERR_ABORTED"
NOT_LOADED = "Failed to load resource"


@contextmanager
def open_chromium() -> Iterator[Browser]:
    """Debian's Chromium. Skips without it, but fails in CI.

    Playwright holds the event loop of its thread as long as it runs. Nothing may call `asyncio.run` in that thread.
    """
    found = shutil.which(CHROMIUM) or shutil.which("chromium") or program(CHROMIUM, CHROMIUM)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"]
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        try:
            yield browser
        finally:
            browser.close()


class Seat:
    """A person before a window. `troubles` are what the window saw of what no page may do."""

    def __init__(self, context: BrowserContext, base_url: str) -> None:
        self.context = context
        self.base_url = base_url
        self.troubles: list[str] = []
        self.expected: set[int] = set()
        self.asked: list[str] = []
        context.on("page", self._watch)
        self.page = context.new_page()

    def open(self, place: str = "", status: int = 200) -> Response:
        """Open a page of the console by its place, such as `projects/…/cases?status=open`."""
        if status >= 400:
            self.expected.add(status)
        answer = self.page.goto(f"{self.base_url}/console/{place}".replace("/?", "?").rstrip("/"))
        assert answer is not None
        assert answer.status == status, f"{place}: {answer.status} {self.text[:2000]}"
        self.look()
        return answer

    def expect(self, *statuses: int) -> None:
        """Let requests from now on be refused with one of these statuses."""
        self.expected |= set(statuses)

    def look(self) -> None:
        """Note whether the page is wider than its window."""
        wide = self.page.evaluate(TOO_WIDE)
        if wide:
            self.troubles.append(f"{self.place} is too wide: {wide}")

    @property
    def place(self) -> str:
        """Where the person is, below `/console`."""
        return self.page.url.removeprefix(f"{self.base_url}/console").lstrip("/")

    @property
    def text(self) -> str:
        """The words of the page as a person sees them."""
        return self.page.locator("body").inner_text()

    def axe(self, *rules: str) -> None:
        """Note what axe finds wrong with the page as it is, by some of its rules or by all. Needs scripts."""
        if not self.page.evaluate("typeof axe === 'object'"):
            self.page.evaluate(_axe())
        found = self.page.evaluate(RUN_AXE, list(rules))
        self.troubles += [f"{self.place}: {one}" for one in found]

    def leave(self) -> None:
        """Look a last time and close the window. Fails with all troubles."""
        for page in self.context.pages:
            if page.url.startswith("http"):
                self.look()
        self.context.close()
        assert self.troubles == [], "\n".join(self.troubles)

    def _watch(self, page: Page) -> None:
        page.set_default_timeout(PATIENCE)
        page.on("dialog", self._dialog)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.troubles.append(f"{page.url} failed: {error}"))
        page.on("request", self._request)
        page.on("requestfailed", self._failed)
        page.on("response", self._response)

    def _dialog(self, dialog: Dialog) -> None:
        self.troubles.append(f"{dialog.page.url if dialog.page else ''} opened a dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and NOT_LOADED not in message.text:
            self.troubles.append(f"{message.location.get('url')} wrote: {message.text}")

    def _request(self, request: Request) -> None:
        self.asked.append(f"{request.method} {request.url}")
        if not request.url.startswith(f"{self.base_url}/"):
            self.troubles.append(f"{request.frame.url} asked {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != LEFT:
            self.troubles.append(f"{request.url} failed: {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.troubles.append(f"{response.url} answered {response.status}")


@contextmanager
def seated(
    chromium: Browser,
    base_url: str,
    secret: str | None = None,
    *,
    theme: Theme = "light",
    scripts: bool = True,
    width: int = WIDE,
    **more: Any,
) -> Iterator[Seat]:
    """Seat a person before a window, signed in by the secret of a session. Fails at the end with all troubles."""
    context = chromium.new_context(
        viewport={"width": width, "height": HEIGHT}, color_scheme=theme, java_script_enabled=scripts, **more
    )
    try:
        context.add_init_script(TELL_VIOLATIONS)
        if secret is not None:
            context.add_cookies([{"name": COOKIE, "value": secret, "url": base_url}])
        seat = Seat(context, base_url)
        yield seat
        seat.leave()
    finally:
        context.close()


@cache
def _axe() -> str:
    """The program of axe-core, which `make .clients/.installed` brings. Skips without it, but fails in CI."""
    if not AXE.exists():
        reason = "axe-core is not installed (make .clients/.installed)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return AXE.read_text(encoding="utf-8")
