"""The sign-in at an issuer over HTTP: whose session it opens, each attack, and each failure of the issuer as a page."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
import pytest_asyncio

from service.accounts import membership
from service.auth.authority import carry_out
from service.eventstore.declare.commands import Intent
from statemachines.accounts import person as people
from tests.support import seen
from tests.support.api import World
from tests.support.cluster import TestCluster
from tests.support.console import shown
from tests.support.issuer import CLIENT, SECRET, FakeIssuer
from tests.support.server import ServerHandle, running_server

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(
    one_issuer: FakeIssuer, tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster
) -> Iterator[ServerHandle]:
    """A server that sends people to the issuer, and trusts it for mail."""
    env = {
        "SERVICE_OIDC_ISSUER": one_issuer.url,
        "SERVICE_OIDC_CLIENT_ID": CLIENT,
        "SERVICE_OIDC_CLIENT_SECRET": SECRET,
        "SERVICE_OIDC_TRUST_EMAIL": "1",
        "SERVICE_OIDC_LABEL": "Acme <ID>",
        "SERVICE_LOG_LEVEL": "debug",
    }
    with running_server(tmp_path_factory.mktemp("oidc"), cluster, env) as handle:
        one_issuer.redirect_uris.add(f"{handle.base_url}/console/oidc/callback")
        yield handle


@pytest_asyncio.fixture
async def world(server: ServerHandle) -> AsyncIterator[World]:
    async with seen.async_client(server.base_url, timeout=60) as client:
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # each visitor has a jar of their own
        yield World(client, server)


class Visitor:
    """A browser with a jar of cookies. It follows nothing by itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.jar: dict[str, str] = {}

    async def get(self, address: str) -> httpx2.Response:
        """Open an address of the service."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        answer = await self.world.client.get(address, headers={"cookie": cookies} if cookies else {})
        if "set-cookie" in answer.headers:
            name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
            self.jar[name] = value
        return answer

    async def leave_for(self, place: str = "console/oidc") -> str:
        """Press the button. Returns the address at the issuer."""
        answer = await self.get(f"/{place}")
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    async def ask(self, place: str = "console/oidc") -> str:
        """Sign in at the issuer. Returns the address back."""
        address = await self.leave_for(place)
        answer = await asyncio.to_thread(httpx2.get, address)
        assert answer.status_code == 302, answer.text
        return str(answer.headers["location"])

    async def sign_in(self, place: str = "console/oidc") -> httpx2.Response:
        """Go the whole way, and come back."""
        return await self.get(await self.ask(place))

    async def is_in(self) -> bool:
        return (await self.get("/console/sessions")).status_code == 200

    @property
    def session(self) -> str:
        return self.jar["service_session"]


async def user_of(visitor: Visitor) -> str:
    """The person who is signed in."""
    [[user_id]] = await visitor.world.sql(
        "select project_id from sessions where secret_hash = encode(sha256(%s::bytea), 'hex')", visitor.session.encode()
    )
    return str(user_id)


def somebody(**claims: Any) -> dict[str, Any]:
    """Claims of somebody new."""
    number = next(_numbers)
    return {
        "sub": f"subject-{number}",
        "email": f"oidc-{number}@example.com",
        "email_verified": True,
        "name": "Ada Lovelace",
        **claims,
    }


def refused(answer: httpx2.Response, sentence: str, status: int = 400) -> None:
    """A page with a problem and the way to try again; no session."""
    assert answer.status_code == status, answer.text
    assert "service_session" not in answer.headers.get("set-cookie", "")
    page = shown(answer)
    assert sentence in page.text
    assert "/console/oidc?" in page.html


async def test_a_new_person_signs_in_and_again(world: World, issuer: FakeIssuer):
    issuer.person, visitor = somebody(), Visitor(world)
    page = shown(await visitor.get("/console/enter?next=settings"))
    assert "Sign in with Acme <ID>" in page.text.replace("&lt;", "<").replace("&gt;", ">")
    address = await visitor.leave_for("console/oidc?next=settings")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert (asked["tenant"], asked["scope"], "prompt" in asked) == ("a", "openid email profile", False)
    entered = await visitor.sign_in("console/oidc?next=settings")
    assert (entered.status_code, entered.headers["location"]) == (303, "/console/settings")
    assert "HttpOnly; SameSite=Lax" in entered.headers["set-cookie"]
    assert await visitor.is_in()
    user_id, first = await user_of(visitor), visitor.session
    [[provider, email, verified, name]] = await world.sql(
        "select provider, email, email_verified, name from people where id = %s", user_id
    )
    assert (provider, email, verified, name) == ("oidc", issuer.person["email"], True, "Ada Lovelace")
    await visitor.sign_in()
    assert await user_of(visitor) == user_id
    assert visitor.session != first
    old = Visitor(world)
    old.jar["service_session"] = first
    assert not await old.is_in(), "the session before has ended"


async def test_whose_session_it_is(world: World, issuer: FakeIssuer):
    known = await world.sign_in(f"known-{next(_numbers)}")
    [[address]] = await world.sql("select email from people where id = %s", known.user_id)
    issuer.person, visitor = somebody(email=address, email_verified=False), Visitor(world)
    await visitor.sign_in()
    stranger = await user_of(visitor)
    assert stranger != known.user_id, "an address without a proof"
    [[shown_address]] = await world.sql("select email from people where id = %s", stranger)
    assert shown_address == f"{stranger}@oidc.invalid"
    issuer.person = {**issuer.person, "email_verified": True}
    await visitor.sign_in()
    assert await user_of(visitor) == stranger, "bound stays bound"
    issuer.person = somebody(email=address.upper(), email_verified="true")
    await visitor.sign_in()
    assert await user_of(visitor) not in {known.user_id, stranger}
    issuer.person = somebody(email=address.upper().replace("EXAMPLE.COM", "example.com"))
    await visitor.sign_in()
    assert await user_of(visitor) == known.user_id
    issuer.person = {**issuer.person, "email": "elsewhere@example.com"}
    await visitor.sign_in()
    assert await user_of(visitor) == known.user_id, "bound stays bound"


async def test_an_address_that_others_only_claim_is_nobodys(world: World, issuer: FakeIssuer):
    """Somebody registers with another's address before that one signs in."""
    issuer.person = somebody()
    claimed = {"provider": "web", "subject": issuer.person["sub"], "email": issuer.person["email"]}
    squatter = (await world.hosted_app.post("/v1/auth/identity/resolve", {"identity": claimed})).json()["user_id"]
    visitor = Visitor(world)
    await visitor.sign_in()
    assert await user_of(visitor) != squatter
    issuer.person = somebody()
    proven = {**claimed, "subject": "other", "email": issuer.person["email"], "email_verified": True}
    owner = (await world.hosted_app.post("/v1/auth/identity/resolve", {"identity": proven})).json()["user_id"]
    await visitor.sign_in()
    assert await user_of(visitor) == owner


async def test_first_sign_ins_at_once_make_one_person(world: World, issuer: FakeIssuer):
    issuer.person = somebody()
    visitors = [Visitor(world) for _ in range(4)]
    answers = await asyncio.gather(*(visitor.sign_in() for visitor in visitors))
    assert [answer.status_code for answer in answers] == [303] * 4
    users = {await user_of(visitor) for visitor in visitors}
    assert len(users) == 1
    [[bound]] = await world.sql("select count(*) from identities where user_id = %s", users.pop())
    assert bound == 1


async def test_of_two_ways_back_with_one_state_one_opens_a_session(world: World, issuer: FakeIssuer):
    issuer.person, issuer.forgets_use, visitor = somebody(), True, Visitor(world)
    back = await visitor.ask()
    answers = await asyncio.gather(*(visitor.get(back) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [303, 400, 400, 400]
    refused(await visitor.get(back), "used already")
    [[sessions]] = await world.sql("select count(*) from sessions where project_id = %s", await user_of(visitor))
    assert sessions == 1


async def test_a_code_works_once(world: World, issuer: FakeIssuer):
    issuer.person, visitor = somebody(), Visitor(world)
    back = await visitor.ask()
    assert (await visitor.get(back)).status_code == 303
    refused(await visitor.get(back), "The code has expired or was used.")


async def test_a_way_begun_in_another_browser_signs_nobody_in(world: World, issuer: FakeIssuer):
    """Login CSRF: the attacker's answer in the victim's browser; and the victim's answer in the attacker's."""
    issuer.person, attacker, victim = somebody(), Visitor(world), Visitor(world)
    back = await attacker.ask()
    refused(await victim.get(back), "did not begin in this browser")
    await victim.leave_for()
    refused(await victim.get(back), "did not begin in this browser")
    query = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
    for wrong in ({**query, "state": ""}, {**query, "state": "x" * 43}, {"code": query["code"]}):
        refused(await victim.get(f"/console/oidc/callback?{urlencode(wrong)}"), "did not begin in this browser")
    for cookie in ("", "x", "x" * 43 + ".1.0.", "x" * 43 + f".{int(time.time())}.0.!", "x" * 43 + ".1.0.////"):
        victim.jar["service_oidc"] = cookie
        refused(await victim.get(back), "did not begin in this browser")
    assert not await victim.is_in()


async def test_the_code_of_another_way_is_refused_by_pkce_and_nonce(world: World, issuer: FakeIssuer):
    """The attacker's code with the victim's state."""
    issuer.person, attacker, victim = somebody(), Visitor(world), Visitor(world)
    [code] = parse_qs(urlsplit(await attacker.ask()).query)["code"]
    [state] = parse_qs(urlsplit(await victim.ask()).query)["state"]
    refused(await victim.get(f"/console/oidc/callback?{urlencode({'code': code, 'state': state})}"), "expired or was")
    assert not await victim.is_in()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"denies": "access_denied"}, "did not let you in"),
        ({"denies": "<script>server_error"}, "refused the sign-in"),
        ({"fail": {"/token": 503}}, "refused the code"),
        ({"fail": {"/token": 404}}, "refused the code"),
        ({"secret": "another"}, "refused the code"),
        ({"claims": {"nonce": "another"}}, "another sign-in"),
        ({"claims": {"nonce": None}}, "another sign-in"),
        ({"claims": {"iss": "https://evil.example"}}, "missing or wrong"),
        ({"claims": {"aud": "another-client"}}, "missing or wrong"),
        ({"claims": {"exp": 1}}, "expired"),
    ],
)
async def test_what_the_issuer_does_wrong_is_a_page(
    world: World, issuer: FakeIssuer, change: dict[str, Any], sentence: str
):
    issuer.person, visitor = somebody(), Visitor(world)
    for name, value in change.items():
        setattr(issuer, name, value)
    answer = await visitor.sign_in()
    refused(answer, sentence)
    assert "<script>server" not in answer.text
    assert not await visitor.is_in()


async def test_another_issuer_answers(world: World, issuer: FakeIssuer):
    """The mix-up attack: the answer names another issuer."""
    issuer.person, visitor = somebody(), Visitor(world)
    back = (await visitor.ask()).partition("&iss=")[0]
    refused(await visitor.get(f"{back}&iss=https%3A%2F%2Fevil.example"), "another issuer")
    assert (await visitor.get(back)).status_code == 303, "an issuer need not name itself"


async def test_an_answer_without_end_is_cut(world: World, issuer: FakeIssuer):
    issuer.person, visitor = somebody(), Visitor(world)

    def pour(handler: Any) -> None:
        handler.reply(200, b'{"id_token": "' + b"x" * 1_000_000 + b'"}')

    back = await visitor.ask()
    issuer.fail["/token"] = pour
    refused(await visitor.get(back), "too large")
    issuer.fail["/token"] = lambda handler: handler.reply(200, b"[" * 50_000)
    refused(await visitor.get(await visitor.ask()), "malformed")
    issuer.fail["/token"] = lambda handler: handler.connection.close()
    refused(await visitor.get(await visitor.ask()), "could not be asked")


async def test_a_slow_issuer_is_given_up(world: World, issuer: FakeIssuer):
    issuer.person, visitor = somebody(), Visitor(world)
    back = await visitor.ask()
    issuer.fail["/token"] = lambda handler: time.sleep(8)
    began = time.monotonic()
    refused(await visitor.get(back), "no complete answer in time")
    assert time.monotonic() - began < 60


async def test_no_session_for_an_account_that_goes(world: World, issuer: FakeIssuer):
    issuer.person, visitor = somebody(), Visitor(world)
    await visitor.sign_in()
    user_id = await user_of(visitor)
    person = people.stream(user_id)
    fence = Intent([person], lambda unit: unit.append(person, people.decide_fence(unit.state(person), unit.now)))
    await world.operate(lambda store: carry_out(store, "test", "fence", fence))
    refused(await Visitor(world).sign_in(), "being deleted", 409)


async def test_signing_in_again_makes_the_session_fresh(world: World, issuer: FakeIssuer):
    issuer.person, visitor = somebody(), Visitor(world)
    await visitor.sign_in()
    user_id, session = await user_of(visitor), visitor.session
    await world.sql("update sessions set authenticated_at = authenticated_at - 1000 where project_id = %s", user_id)
    page = shown(await visitor.get("/console/again?next=settings"))
    assert "/console/oidc?again=1&amp;next=settings" in page.html
    address = await visitor.leave_for("console/oidc?again=1&next=settings")
    assert parse_qs(urlsplit(address).query)["prompt"] == ["login"]
    assert parse_qs(urlsplit(address).query)["max_age"] == ["0"]
    for wrong in ({"auth_time": int(time.time()) - 1000}, {"auth_time": None}, {"auth_time": True}, {"auth_time": "1"}):
        issuer.claims = wrong
        refused(await visitor.sign_in("console/oidc?again=1"), "did not ask you to sign in again")
    issuer.claims = {}
    me = issuer.person
    issuer.person = somebody()
    refused(await visitor.sign_in("console/oidc?again=1"), "You signed in as somebody else", 403)
    assert visitor.session == session
    issuer.person = me
    renewed = await visitor.sign_in("console/oidc?again=1&next=settings")
    assert (renewed.status_code, renewed.headers["location"]) == (303, "/console/settings")
    assert visitor.session != session
    [[age, by, count]] = await world.sql(
        "select max(authenticated_at - created_at), max(by), count(*) from sessions where project_id = %s", user_id
    )
    assert (age >= 0, by, count) == (True, "oidc", 1)
    assert await visitor.is_in()
    nobody = Visitor(world)
    refused(await nobody.sign_in("console/oidc?again=1"), "Your session has ended")


@pytest.mark.parametrize(
    "after", ["//evil.example", "https://evil.example", "/\\evil.example", "x" * 3000, "é\r\nx: y"]
)
async def test_the_way_leads_nowhere_else(world: World, issuer: FakeIssuer, after: str):
    issuer.person, visitor = somebody(), Visitor(world)
    entered = await visitor.sign_in(f"console/oidc?{urlencode({'next': after})}")
    assert entered.status_code == 303
    assert entered.headers["location"].startswith("/console")
    assert "evil" not in entered.headers["location"]


async def test_a_post_of_another_site_is_refused(world: World, issuer: FakeIssuer):
    person = await world.sign_in()
    link = await world.operate(lambda store: membership.offer_session(store, person.user_id))
    form = {"token": link.secret}
    for site in ("cross-site", "same-site"):
        answer = await world.client.post("/console/enter", data=form, headers={"sec-fetch-site": site})
        assert answer.status_code == 403
    visitor = Visitor(world)
    answer = await world.client.post("/console/enter", data=form, headers={"sec-fetch-site": "same-origin"})
    visitor.jar["service_session"] = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
    page = shown(await visitor.get("/console"))
    [leave] = [one for one in page.forms if one.action == "/console/leave"]
    cookie = {"cookie": f"service_session={visitor.session}"}
    for site in ("cross-site", "same-site"):
        headers = {**cookie, "sec-fetch-site": site}
        answer = await world.client.post("/console/leave", data=dict(leave.fields), headers=headers)
        assert answer.status_code == 403
    assert await visitor.is_in()
    answer = await world.client.post(
        "/console/leave", data=dict(leave.fields), headers={**cookie, "sec-fetch-site": "none"}
    )
    assert answer.status_code == 303


async def test_no_secret_stands_in_the_log(world: World, issuer: FakeIssuer):
    """After all of the above at level debug, and after one more sign-in by a link."""
    person, visitor = await world.sign_in(), Visitor(world)
    link = await world.operate(lambda store: membership.offer_session(store, person.user_id))
    await world.client.get("/console/enter", params={"token": link.secret})
    entered = await world.client.post(
        "/console/enter", data={"token": link.secret}, headers={"origin": world.server.base_url}
    )
    issuer.person = somebody()
    await visitor.sign_in()
    log = world.server.log()
    assert "/console/oidc/callback" in log, "the log tells of the requests"
    secrets = [link.secret, entered.headers["set-cookie"].partition(";")[0].partition("=")[2]]
    secrets += [*visitor.jar.values(), SECRET, *issuer.issued]
    assert len(secrets) > 20
    assert [secret for secret in secrets if secret in log] == []
