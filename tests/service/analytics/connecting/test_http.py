"""Requests to a provider through the guard (G-150, G-032)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from schemas.analytics import READ_SCOPES
from service.analytics.connecting.http import (
    SHORT_WAIT,
    Content,
    HttpAnswer,
    ProviderClient,
    Throttled,
    document,
    failed,
    form,
)
from service.analytics.connecting.oauth import ConnectionSecrets, ProviderOAuth
from service.egress.exchange import NotReceived, Reason, Received, Request
from service.egress.guard import CALLERS, OPERATOR, Guard, Reach
from service.egress.lookups import OF_OPERATOR, Lookups
from service.settings import Settings, load_settings
from statemachines.kernel.machine import Cause, ReadFailed
from tests.service.egress.test_lookups import Resolver, fill
from tests.support.receiver import answers, receiving

FOREIGN = "https://provider.example"
GRANT = ConnectionSecrets(refresh_token="r")


class Recording(Guard):
    """A guard that calls nobody: it keeps what it is asked for, and returns what a test says."""

    def __init__(self, outcome: Received | NotReceived) -> None:
        super().__init__()
        self.outcome = outcome
        self.calls: list[tuple[str, Request, Reach, str | None]] = []

    async def call(
        self, url: str, request: Request, *, account: str | None, reach: Reach, **_: Any
    ) -> Received | NotReceived:
        self.calls.append((url, request, reach, account))
        return self.outcome


def settings(url: str = "http://10.0.0.1:8000") -> Settings:
    """Settings with a provider whose client has a secret."""
    return load_settings(
        {
            "SERVICE_PROVIDER_CLIENT_ID": "client-1",
            "SERVICE_PROVIDER_CLIENT_SECRET": "client-secret",
            "SERVICE_PROVIDER_OAUTH_URL": "http://10.0.0.2:8000",
            "SERVICE_PROVIDER_US_URL": url,
            "SERVICE_ENCRYPTION_KEY": "00" * 32,
        },
        secrets=False,
    )


async def post(client: ProviderClient, host: str, content: Content, max_bytes: int = 100) -> HttpAnswer | ReadFailed:
    return await client.post(host, "/x/", content, account="a", max_bytes=max_bytes)


async def test_a_configured_host_may_lie_inside_and_another_may_not() -> None:
    """The operator's own host is called on loopback and over http; the same address named by a caller is not."""
    asked: list[str] = []

    def resolve(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with receiving(answers(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")) as receiver:
        configured = f"http://inside.example:{receiver.port}"
        client = ProviderClient(settings(configured), Guard(Lookups(resolve)))
        assert await post(client, configured, form(a="b c")) == HttpAnswer(200, b"hi")
        head, body = receiver.requests[0].split(b"\r\n\r\n")
        assert (body, asked) == (b"a=b+c", ["inside.example"])
        assert b"content-type: application/x-www-form-urlencoded" in head
        assert b"accept: application/json" in head
        for host in (f"https://inside.example:{receiver.port}", f"https://127.0.0.1:{receiver.port}"):
            assert await post(client, host, form()) == ReadFailed("refused")
        assert receiver.connections == 1


async def test_names_of_tenants_that_hang_delay_no_configured_host() -> None:
    """The operator's host is found by look-ups of its own, in the name of any account."""
    resolver = Resolver()
    lookups = Lookups(lambda host: [*resolver(host), "127.0.0.1"][-1:])
    hanging = await fill(lookups, resolver)
    async with receiving(answers(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")) as receiver:
        configured = f"http://inside.example:{receiver.port}"
        client = ProviderClient(settings(configured), Guard(lookups))
        async with asyncio.timeout(1):
            assert await client.post(configured, "/x/", form(), account="h0", max_bytes=9) == HttpAnswer(200, b"hi")
    resolver.release.set()
    await asyncio.gather(*hanging, return_exceptions=True)


async def test_an_answer_over_its_bound_is_no_answer() -> None:
    """What was cut could be read as something else."""
    client = ProviderClient(settings(), Recording(Received(200, b"{}", cut=True)))
    assert await post(client, FOREIGN, document({})) == ReadFailed("too_much")


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("timeout", "timeout"),
        ("slow_name", "timeout"),
        ("busy", "timeout"),
        ("unreachable", "unreachable"),
        ("certificate", "unreachable"),
        ("tls", "unreachable"),
        ("closed", "unreachable"),
        ("malformed", "unreachable"),
        ("head", "unreachable"),
    ],
)
async def test_a_call_without_an_answer(reason: Reason, cause: Cause) -> None:
    """Each reason is a failed read, none of them a misdirected one."""
    client = ProviderClient(settings(), Recording(NotReceived(reason)))
    assert await post(client, FOREIGN, document({})) == ReadFailed(cause)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7),
        (" 7 ", 7),
        ("0", 0),
        ("999999", 3600),
        ("9" * 400, None),
        ("-1", None),
        ("1.5", None),
        ("\u0663", None),
        ("Wed, 25 Nov 2026 18:00:00 GMT", None),
    ],
)
async def test_the_seconds_of_a_retry_after(header: str | None, seconds: int | None) -> None:
    """Whole seconds count, up to an hour; a date or anything else counts as unsaid."""
    client = ProviderClient(settings(), Recording(Received(429, b"", False, header)))
    assert await post(client, FOREIGN, document({})) == HttpAnswer(429, b"", seconds)


def test_a_429_or_5xx_is_a_wait_and_any_other_failure_is_none() -> None:
    """What waits is told for how long, also when the provider says nothing or zero."""
    assert failed(HttpAnswer(429, b"", 7)) == Throttled("unreachable", retry_after=7)
    assert (
        failed(HttpAnswer(429, b"", 0))
        == failed(HttpAnswer(429, b""))
        == Throttled("unreachable", retry_after=SHORT_WAIT)
    )
    assert failed(HttpAnswer(503, b"", 7)) == Throttled("unreachable", retry_after=7)
    assert failed(HttpAnswer(403, b"")) == ReadFailed("unauthorized")


async def test_a_name_that_does_not_resolve_is_refused() -> None:
    """It is as good as an address that may not be called."""
    client = ProviderClient(settings(), Guard(Lookups(lambda _: [])))
    assert await post(client, FOREIGN, document({})) == ReadFailed("refused")


async def test_our_secret_goes_to_the_operator_s_hosts_alone() -> None:
    """A host that a caller names gets the client's id, within the caller's share of look-ups, and no secret."""
    guard = Recording(Received(401, b"{}", cut=False))
    oauth = ProviderOAuth(settings(), ProviderClient(settings(), guard))
    for host in (FOREIGN, "http://10.0.0.1:8000"):
        await oauth.refresh(host, "account-1", GRANT, READ_SCOPES)
    foreign, own = guard.calls
    assert foreign[0] == f"{FOREIGN}/oauth/token/"
    assert own[0] == "http://10.0.0.2:8000/oauth/token/", "people of both regions sign in at one address"
    assert (foreign[2], own[2]) == (CALLERS, OPERATOR)
    assert (foreign[3], own[3]) == ("account-1", OF_OPERATOR)
    assert b"client_id=client-1" in foreign[1].body
    assert b"secret" not in foreign[1].body
    assert b"client_secret=client-secret" in own[1].body


@pytest.mark.parametrize("token", ["", "a b", "a\n", "a\r\nx: y", "ä", "a "])
async def test_a_token_that_fits_no_header_is_malformed(token: str) -> None:
    """What a provider calls a token goes into a header of the next request."""
    body = msgspec.json.encode({"access_token": token})
    oauth = ProviderOAuth(settings(), ProviderClient(settings(), Recording(Received(200, body, cut=False))))
    assert await oauth.refresh(FOREIGN, "a", GRANT, READ_SCOPES) == ReadFailed("malformed")
