"""Session fixation, on every way of signing in; and that no secret of any of them is kept or logged.

Somebody may have planted a cookie in a browser: a session of theirs, or a made-up one. Each way gives a new secret.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from service.accounts import membership
from tests.service.auth.oidc.test_way import Visitor, somebody, user_of
from tests.service.auth.oidc.test_way import server as server  # noqa: PLC0414 (a fixture is found by name)
from tests.service.auth.oidc.test_way import world as world  # noqa: PLC0414
from tests.service.console.test_hostile_requests import is_frameless
from tests.support.api import Person, World, ok
from tests.support.console import COOKIE
from tests.support.issuer import FakeIssuer

MADE_UP = "service_ses_" + "0" * 43
TOKEN = re.compile(r'name="_csrf" value="([^"]+)"')
Way = Callable[[World, Visitor, Person, FakeIssuer], Awaitable[httpx2.Response]]


async def link_of(world: World, person: Person) -> str:
    """A new link of a person, as the operator hands it out."""
    made = await world.operate(lambda store: membership.offer_session(store, person.user_id))
    return str(made.secret)


async def token_of(visitor: Visitor) -> str:
    """The token in the forms of a browser."""
    found = TOKEN.search((await visitor.get("/console/again")).text)
    assert found
    return found[1]


async def post(visitor: Visitor, path: str, fields: dict[str, str]) -> httpx2.Response:
    """Send a form as a page of the console does, with the cookies of a browser. Keeps what it sets."""
    cookies = "; ".join(f"{name}={value}" for name, value in visitor.jar.items())
    headers = {"origin": visitor.world.server.base_url, "cookie": cookies}
    answer = await visitor.world.client.post(path, data=fields, headers=headers)
    if "set-cookie" in answer.headers:
        name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
        visitor.jar[name] = value
    return answer


async def claims_of(world: World, person: Person) -> dict[str, Any]:
    """What the issuer says of a person."""
    [[email]] = await world.sql("select email from people where id = %s", person.user_id)
    return {**somebody(), "sub": person.user_id, "email": email}


async def by_link(world: World, visitor: Visitor, person: Person, _: FakeIssuer) -> httpx2.Response:
    return await post(visitor, "/console/enter", {"token": await link_of(world, person), "next": ""})


async def by_issuer(world: World, visitor: Visitor, person: Person, issuer: FakeIssuer) -> httpx2.Response:
    issuer.person = await claims_of(world, person)
    return await visitor.sign_in()


async def by_link_again(world: World, visitor: Visitor, person: Person, _: FakeIssuer) -> httpx2.Response:
    link = await link_of(world, person)
    return await post(visitor, "/console/again", {"_csrf": await token_of(visitor), "link": f"x?token={link}"})


async def by_issuer_again(world: World, visitor: Visitor, person: Person, issuer: FakeIssuer) -> httpx2.Response:
    issuer.person = await claims_of(world, person)
    return await visitor.sign_in("console/oidc?again=1")


@pytest.mark.parametrize("way", [by_link, by_issuer])
async def test_a_planted_session_is_replaced_and_ended(world: World, issuer: FakeIssuer, way: Way) -> None:
    victim, attacker = await world.sign_in(), await world.sign_in()
    theirs = (await attacker.open_session()).secret
    for planted in (theirs, MADE_UP, "", "x" * 3000, f"{theirs}; {COOKIE}={MADE_UP}"):
        visitor = Visitor(world)
        visitor.jar[COOKIE] = planted
        answer = await way(world, visitor, victim, issuer)
        assert answer.status_code == 303, answer.text
        assert visitor.session not in planted
        assert await user_of(visitor) == victim.user_id
        assert is_frameless(answer)
        for part in ("HttpOnly", "SameSite=Lax", "Path=/", "Max-Age="):
            assert part in answer.headers["set-cookie"]
        old = Visitor(world)
        old.jar[COOKIE] = planted
        assert not await old.is_in(), "who planted it is signed out, and signed in as nobody"


@pytest.mark.parametrize("way", [by_link_again, by_issuer_again])
async def test_a_sign_in_once_more_renews_secret_and_token(world: World, issuer: FakeIssuer, way: Way) -> None:
    """What somebody had seen of the session before is of no use after it."""
    person, visitor = await world.sign_in(), Visitor(world)
    await by_issuer(world, visitor, person, issuer)
    before, token = Visitor(world), await token_of(visitor)
    before.jar[COOKIE] = visitor.session
    assert (await way(world, visitor, person, issuer)).status_code == 303
    assert visitor.session != before.session
    assert await token_of(visitor) != token
    assert not await before.is_in()
    wish = {"_csrf": token, "_back": "again", "name": "stolen"}
    assert (await post(visitor, "/console/do/create_project", wish)).status_code == 403
    assert (await post(before, "/console/do/create_project", wish)).headers["location"] == "/console/enter"
    assert ok(await person.get("/v1/projects"))["projects"] == []


@pytest.mark.parametrize("way", [by_link_again, by_issuer_again])
async def test_nobody_makes_the_session_of_another_fresh(world: World, issuer: FakeIssuer, way: Way) -> None:
    """A victim with a planted session signs in once more: the planted one stays as it was."""
    victim, attacker, visitor = await world.sign_in(), await world.sign_in(), Visitor(world)
    visitor.jar[COOKIE] = planted = (await attacker.open_session()).secret
    read = "select revision, authenticated_at, secret_hash from sessions where project_id = %s and status = 'open'"
    before = await world.sql(read, attacker.user_id)
    answer = await way(world, visitor, victim, issuer)
    assert answer.status_code >= 400
    assert is_frameless(answer)
    assert visitor.session == planted
    assert await world.sql(read, attacker.user_id) == before
    assert await world.sql(read, victim.user_id) == []


async def test_a_device_gets_a_key_and_no_session(world: World, issuer: FakeIssuer) -> None:
    """Confirming a device changes nothing of the session, and the code of a device opens none."""
    person, visitor = await world.sign_in(), Visitor(world)
    await by_link(world, visitor, person, issuer)
    secret, started = visitor.session, ok(await world.post("/v1/auth/device", {"client_name": "laptop"}))
    for code in (started["user_code"], started["device_code"]):
        entered = await post(Visitor(world), "/console/enter", {"token": code, "next": ""})
        assert entered.status_code >= 400
        assert "set-cookie" not in entered.headers
    fields = {"_csrf": await token_of(visitor), "user_code": started["user_code"], "decision": "confirm"}
    confirmed = await post(visitor, "/console/device", fields)
    assert confirmed.status_code == 303
    assert "set-cookie" not in confirmed.headers
    key = ok(await world.post("/v1/auth/device/poll", {"device_code": started["device_code"]}))["api_key"]
    assert visitor.session == secret
    for shown in (key, started["device_code"], started["user_code"]):
        other = Visitor(world)
        other.jar[COOKIE] = shown
        assert not await other.is_in()


async def test_no_secret_of_any_way_is_kept_or_logged(world: World, issuer: FakeIssuer) -> None:
    """Neither in the log at level debug, nor in any row of any table, as text or as bytes."""
    person, visitor, secrets = await world.sign_in(), Visitor(world), dict[str, str]()

    async def note(where: str) -> None:
        secrets[f"session {where}"] = visitor.session
        secrets[f"token {where}"] = await token_of(visitor)

    for number in range(2):
        link = secrets[f"link {number}"] = await link_of(world, person)
        if number == 0:
            await visitor.get(f"/console/enter?token={link}&next=settings")
            await post(visitor, "/console/enter", {"token": link, "next": "settings"})
        else:
            await post(visitor, "/console/again", {"_csrf": await token_of(visitor), "link": f"x?token={link}"})
        await note(f"by link {number}")
    secrets["link that nobody used"] = await link_of(world, person)
    for place in ("console/oidc?next=settings", "console/oidc?again=1"):
        issuer.person = issuer.person or somebody()
        back = await visitor.ask(place)
        query = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        secrets |= {f"code {place}": query["code"], f"state {place}": query["state"]}
        secrets[f"cookie {place}"] = visitor.jar["service_oidc"]
        assert (await visitor.get(back)).status_code == 303
        await note(place)
    secrets |= {f"issued {number}": one for number, one in enumerate(issuer.issued)}
    started: Any = ok(await world.post("/v1/auth/device", {"client_name": "laptop"}))
    fields = {"_csrf": await token_of(visitor), "user_code": started["user_code"], "decision": "confirm"}
    assert (await post(visitor, "/console/device", fields)).status_code == 303
    polled = ok(await world.post("/v1/auth/device/poll", {"device_code": started["device_code"]}))
    secrets |= {"code of a device": started["device_code"], "key": polled["api_key"]}
    secrets["code shown to its person"] = started["user_code"]
    log = world.server.log()
    assert "/console/oidc/callback" in log
    assert [name for name, secret in secrets.items() if secret in log] == []
    for [table] in await world.sql("select relname from pg_class where relkind = 'r' and relname !~ '^(pg|sql)_'"):
        rows = "\n".join(row for [row] in await world.sql(f'select t::text from "{table}" t'))
        kept = [name for name, one in secrets.items() if one in rows or one.encode().hex() in rows]
        assert kept == [], f"in {table}: {kept}"
