"""What a human and their browser do while a provider is connected: grant there, come back, compare, answer (G-164)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from html import unescape
from typing import Any
from urllib.parse import urljoin

import httpx2
import psycopg

from tests.support.api import ok
from tests.support.onboarding import Onboarding
from tests.support.provider import FakeProvider
from tests.support.rounds import wait_until
from tests.support.server import ServerHandle

START, POLL, CALLBACK = "/v1/auth/provider", "/v1/auth/provider/poll", "/v1/auth/provider/callback"

_FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')
_CODE = re.compile(r'<code class="code">([^<]+)</code>')
_ACTION = re.compile(r'<form method="post" action="([^"]+)"')


def without_looks(server: ServerHandle) -> None:
    """Let the worker of a server look at no provider by itself: the job that waits is the only one of its kind.

    A worker that starts has one already. It is carried out first.
    """
    assert server.database_url is not None
    task = "ingest.provider_exceptions"
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        add = (
            "insert into procrastinate_jobs (queue_name, task_name, queueing_lock, scheduled_at) "
            "values ('default', %s, %s, 'infinity') on conflict do nothing"
        )
        wait_until(lambda: connection.execute(add, (task, f"procrastinate:{task}")).rowcount, timeout=30)
        doing = "select from procrastinate_jobs where task_name = %s and status = 'doing'"
        wait_until(lambda: not connection.execute(doing, (task,)).fetchall(), timeout=30)


def visit(url: str) -> httpx2.Response:
    """Open an address, without following where it leads."""
    return httpx2.get(url, timeout=30, trust_env=False)


def sent_back(started: dict[str, Any]) -> str:
    """Decide at the provider; returns the address it sends the browser to."""
    answer = visit(started["authorization_url"])
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"])


def form_of(page: httpx2.Response) -> dict[str, str]:
    """The hidden fields of the form on our page."""
    return {name: unescape(value) for name, value in _FIELD.findall(page.text)}


def code_on(page: httpx2.Response) -> str:
    """The user code that the page shows."""
    [code] = _CODE.findall(page.text)
    return unescape(code)


def press(page: httpx2.Response, decision: str = "allow") -> httpx2.Response:
    """Send the form of our page."""
    [action] = _ACTION.findall(page.text)
    fields = {**form_of(page), "decision": decision}
    return httpx2.post(urljoin(str(page.url), action), data=fields, timeout=30, trust_env=False)


def grant(started: dict[str, Any]) -> httpx2.Response:
    """Grant access, compare the codes, and connect."""
    page = visit(sent_back(started))
    assert page.status_code == 200, page.text
    assert code_on(page) == started["user_code"]
    return press(page)


async def start(onb: Onboarding, **members: Any) -> dict[str, Any]:
    """Begin a sign-in of a project."""
    return ok(await onb.owner.post(START, {"project_id": onb.project_id, **members}))


async def poll(onb: Onboarding, started: dict[str, Any]) -> dict[str, Any]:
    """Ask how a sign-in stands."""
    return ok(await onb.owner.post(POLL, {"connection_id": started["connection_id"]}))


async def connect(onb: Onboarding, provider: FakeProvider, **members: Any) -> dict[str, Any]:
    """Connect a project. Returns the connection as polled."""
    provider.human = "granted"
    started = await start(onb, **members)
    grant(started)
    return await poll(onb, started)


RESTING = {429: (503, "service_unavailable"), 500: (503, "service_unavailable"), 502: (503, "service_unavailable")}
"""What callers are told of a provider's statuses that begin a rest. Of any other failure they are told 502."""
NO_READ = (502, "upstream_error")


async def rested(ask: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
    """Ask until the rest of a connection is over, by its own Retry-After."""
    while (answer := await ask()).status_code == 503:
        assert int(answer.headers["retry-after"]) > 0
        await asyncio.sleep(0.2)
    return answer
