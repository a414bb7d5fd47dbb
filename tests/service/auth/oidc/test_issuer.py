"""The issuer as a process knows it: what is kept, what is asked again, and what is refused of its documents."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from service.auth import oidc as flows
from service.auth import oidc as module
from service.auth.oidc import Flow, Issuer, IssuerFailed
from service.egress.guard import Guard
from service.egress.lookups import Lookups
from service.fairness.bounds import SHARE
from service.settings import Settings, SettingsError, load_settings
from statemachines.accounts.identity import Vouched
from tests.service.egress.test_lookups import Resolver, fill
from tests.support.issuer import CLIENT, SECRET, FakeIssuer, key

BASE = "http://service.example"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def settings_for(url: str, **more: str) -> Settings:
    env = {
        "SERVICE_OIDC_ISSUER": url,
        "SERVICE_OIDC_CLIENT_ID": CLIENT,
        "SERVICE_OIDC_CLIENT_SECRET": SECRET,
        "SERVICE_BASE_URL": BASE,
        **{f"SERVICE_OIDC_{name}": value for name, value in more.items()},
    }
    return load_settings({name: value for name, value in env.items() if value}, secrets=False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def known(issuer: FakeIssuer, clock: Clock) -> Issuer:
    issuer.redirect_uris.add(f"{BASE}/console/oidc/callback")
    issuer.person = {"sub": "ada", "email": "ada@example.com", "email_verified": True}
    return Issuer(settings_for(issuer.url), Guard(), clock)


async def answer(known: Issuer, issuer: FakeIssuer, flow: Flow) -> dict[str, str]:
    """Sign in at the issuer; what the browser brings back."""
    asked = parse_qs(urlsplit(await known.address(flow)).query)
    back = issuer.authorize({name: values[0] for name, values in asked.items()})
    return {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}


async def test_names_of_tenants_that_hang_delay_no_sign_in(issuer: FakeIssuer) -> None:
    """The issuer is found by look-ups of its own."""
    resolver = Resolver()
    lookups = Lookups(lambda host: [*resolver(host), "127.0.0.1"][-1:])
    hanging = await fill(lookups, resolver)
    issuer.url = issuer.url.replace("127.0.0.1", "localhost")
    async with asyncio.timeout(1):
        assert await Issuer(settings_for(issuer.url), Guard(lookups)).look() == len(issuer.keys)
    assert "localhost" in resolver.asked
    resolver.release.set()
    await asyncio.gather(*hanging, return_exceptions=True)


async def sign_in(known: Issuer, issuer: FakeIssuer) -> Vouched:
    flow = flows.begin("", again=False)
    return await known.redeem(flow, await answer(known, issuer, flow))


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"SERVICE_OIDC_ISSUER": "https://id.example"}, "SERVICE_OIDC_ISSUER: needs SERVICE_OIDC_CLIENT_ID"),
        ({"SERVICE_OIDC_CLIENT_ID": "client"}, "SERVICE_OIDC_CLIENT_ID: needs SERVICE_OIDC_ISSUER"),
        (
            {"SERVICE_OIDC_ISSUER": "http://id.example", "SERVICE_OIDC_CLIENT_ID": "c"},
            "SERVICE_OIDC_ISSUER: must be an",
        ),
        ({"SERVICE_OIDC_ISSUER": "id.example", "SERVICE_OIDC_CLIENT_ID": "c"}, "SERVICE_OIDC_ISSUER: must be an"),
        ({"SERVICE_OIDC_SCOPES": "email"}, "SERVICE_OIDC_SCOPES: must be scopes"),
        ({"SERVICE_OIDC_LABEL": "x" * 61}, "SERVICE_OIDC_LABEL: must be at most"),
        ({"SERVICE_OIDC_TRUST_EMAIL": "maybe"}, "SERVICE_OIDC_TRUST_EMAIL: must be 1 or 0"),
    ],
)
def test_half_an_issuer_is_refused(env: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(env, secrets=False)
    assert problem in str(refused.value)


def test_an_issuer_is_kept_as_it_is_written() -> None:
    for url in ("https://id.example/", "https://id.example/a", "http://localhost:9", "http://[::1]:9"):
        assert settings_for(url).oidc_issuer == url
    assert SECRET not in repr(settings_for("https://id.example"))


async def test_an_address_counts_where_the_operator_says_so(known: Issuer, issuer: FakeIssuer):
    assert await sign_in(known, issuer) == Vouched(issuer.url, "ada", None, None)
    trusting = Issuer(settings_for(issuer.url, TRUST_EMAIL="1"), Guard())
    assert (await sign_in(trusting, issuer)).email == "ada@example.com"


async def test_a_client_shows_its_secret_as_the_issuer_wants_it(known: Issuer, issuer: FakeIssuer):
    for methods in (None, ["client_secret_basic", "client_secret_post"], ["client_secret_post"]):
        issuer.methods = methods
        fresh = Issuer(settings_for(issuer.url), Guard())
        assert (await sign_in(fresh, issuer)).subject == "ada"
    issuer.secret = issuer.methods = None
    public = Issuer(settings_for(issuer.url, CLIENT_SECRET=""), Guard())
    assert (await sign_in(public, issuer)).subject == "ada"


async def test_keys_are_kept_and_read_again_for_a_new_one(known: Issuer, issuer: FakeIssuer, clock: Clock):
    for _ in range(3):
        await sign_in(known, issuer)
    assert issuer.requests.count("/keys") == 1
    assert issuer.requests.count("/.well-known/openid-configuration") == 1
    issuer.keys = [*issuer.keys, key("ES256", "second"), key("EdDSA", "third")]
    for _ in range(3):
        with pytest.raises(IssuerFailed, match="unknown key"):
            await sign_in(known, issuer)
    assert issuer.requests.count("/keys") == 1, "not more often than every ten seconds"
    clock.now += module.AGAIN
    await sign_in(known, issuer)
    issuer.keys = issuer.keys[:2]
    await sign_in(known, issuer)
    assert issuer.requests.count("/keys") == 2
    clock.now += module.KEPT + 1
    await sign_in(known, issuer)
    assert issuer.requests.count("/keys") == 3
    assert issuer.requests.count("/.well-known/openid-configuration") == 2


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"issuer": "https://evil.example"}, "names another issuer"),
        ({"issuer": None}, "malformed"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "cannot be used"),
        ({"authorization_endpoint": "http://192.0.2.1/a"}, "cannot be used"),
        ({"authorization_endpoint": "https://a.example/\r\nx: y"}, "cannot be used"),
        ({"jwks_uri": 5}, "malformed"),
    ],
)
async def test_a_document_that_lies_is_refused(
    known: Issuer, issuer: FakeIssuer, document: dict[str, Any], sentence: str
):
    issuer.document = document
    with pytest.raises(IssuerFailed, match=sentence):
        await known.address(flows.begin("", again=False))


@pytest.mark.parametrize("member", ["token_endpoint", "jwks_uri"])
@pytest.mark.parametrize("host", ["http://127.0.0.1:1", "https://127.0.0.1:1", "https://10.0.0.1", "http://a.example"])
async def test_a_document_leads_to_no_private_host_but_its_own(
    known: Issuer, issuer: FakeIssuer, member: str, host: str
):
    """The operator has named the issuer's host, and no other."""
    issuer.document = {member: f"{host}/x"}
    with pytest.raises(IssuerFailed, match="may not be called"):
        await sign_in(known, issuer)


async def test_failures_are_said_and_rest_for_a_moment(known: Issuer, issuer: FakeIssuer, clock: Clock):
    discovery = "/.well-known/openid-configuration"
    issuer.fail[discovery] = 500
    flow = flows.begin("", again=False)
    for _ in range(3):
        with pytest.raises(IssuerFailed, match="status 500"):
            await known.address(flow)
    assert issuer.requests.count(discovery) == 1
    clock.now += module.REST
    issuer.fail[discovery] = lambda handler: handler.reply(200, b'{"issuer": "' + b"x" * 1_000_000)
    with pytest.raises(IssuerFailed, match="too large"):
        await known.address(flow)
    clock.now += module.REST
    issuer.fail[discovery] = lambda handler: handler.reply(302, b"", location="https://evil.example/")
    with pytest.raises(IssuerFailed, match="status 302"):
        await known.address(flow)
    clock.now += module.REST
    issuer.fail = {}
    assert await known.address(flow)


async def test_so_many_sign_in_at_once(issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch):
    """The places are the share of a process, which it takes as it makes its issuer."""
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2 * 2)
    monkeypatch.setattr(SHARE, "processes", 2)
    known = Issuer(settings_for(issuer.url), Guard())
    results = await asyncio.gather(
        *(known.address(flows.begin("", again=False)) for _ in range(5)), return_exceptions=True
    )
    assert [isinstance(one, IssuerFailed) for one in results] == [False, False, True, True, True]
    assert await known.address(flows.begin("", again=False))


def test_a_way_keeps_its_secrets_apart():
    one, other = flows.begin("settings?a=b é", again=True), flows.begin("", again=False)
    derived = [way.state for way in (one, other)] + [way.nonce for way in (one, other)]
    derived += [way.verifier for way in (one, other)] + [way.challenge for way in (one, other)]
    assert len(set(derived)) == 8
    assert all(len(text) == 43 for text in derived)
    assert flows.read(one.cookie) == one
    assert (one.place, one.again) == ("settings?a=b é", True)
    assert one.matches(one.state)
    for wrong in (other.state, "", "é", "\ud800", one.state + "="):
        assert not one.matches(wrong)
    jar = SimpleCookie()
    jar.load(f"service_oidc={one.cookie}")
    assert jar["service_oidc"].value == one.cookie
    assert flows.begin("x" * 5000, again=False).place == ""


def test_a_way_is_over_after_ten_minutes(monkeypatch: pytest.MonkeyPatch):
    way = flows.begin("", again=False)
    monkeypatch.setattr(flows.time, "time", lambda: way.began_at + flows.LIFETIME)
    assert way.matches(way.state)
    monkeypatch.setattr(flows.time, "time", lambda: way.began_at + flows.LIFETIME + 1)
    assert not way.matches(way.state)
    monkeypatch.setattr(flows.time, "time", lambda: way.began_at - 1)
    assert not way.matches(way.state)
