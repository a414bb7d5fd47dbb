"""The page a human comes back to from their analytics provider: one visit, one answer, whoever races (G-164)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest

from service.auth.secrets import seal
from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support import seen
from tests.support.api import World, at_once, refused
from tests.support.connecting import CALLBACK, form_of, grant, poll, press, sent_back, start, visit
from tests.support.onboarding import onboard
from tests.support.provider import FakeProvider
from tests.support.server import ENCRYPTION_KEY, ServerHandle

FORM = "application/x-www-form-urlencoded"


async def count(world: World, started: dict[str, Any]) -> list[str]:
    """The events of a connection, by name."""
    rows = await world.sql("select topic from events where stream_id = %s order by revision", started["connection_id"])
    return [str(topic).split(".")[1] for (topic,) in rows]


async def answered(world: World, form: dict[str, str]) -> httpx2.Response:
    """Send a form of our page."""
    return await world.client.post(CALLBACK, data=form)


async def test_the_page_is_for_one_human_and_no_frame(world: World, provider: FakeProvider) -> None:
    """It holds no script and no code of the provider, is not cached, and says nothing to other sites."""
    started = await start(await onboard(world))
    address = sent_back(started)
    page = visit(address)
    assert "on one machine" not in page.text, "this client came from the operator"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-frame-options"] == "DENY"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "<script" not in page.text
    code = dict(parse_qsl(urlsplit(address).query))["code"]
    assert code not in page.text
    assert set(form_of(page)) == {"state", "token"}


async def test_the_verifier_fits_the_challenge(world: World, provider: FakeProvider) -> None:
    """S256, from a verifier that RFC 7636 allows; a new one each time."""
    onb = await onboard(world)
    seen = set()
    for _ in range(2):
        started = await start(onb)
        grant(started)
        [challenge] = [asked["code_challenge"] for asked in provider.asked][-1:]
        verifier = provider.calls("/oauth/token/")[-1]["code_verifier"]
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        assert (digest, 43 <= len(verifier) <= 128) == (challenge, True)
        seen.add(verifier)
    assert len(seen) == 2


async def test_a_state_is_good_for_one_visit(world: World, provider: FakeProvider) -> None:
    """Eight visits at once: one page, seven times 410; and the one page still connects."""
    for _ in range(3):
        onb = await onboard(world)
        started = await start(onb)
        address = sent_back(started)
        pages = await at_once(8, lambda _, a=address: world.client.get(a))
        assert Counter(page.status_code for page in pages) == {200: 1, 410: 7}
        [page] = [page for page in pages if page.status_code == 200]
        assert visit(address).status_code == 410
        assert press(page).status_code == 200
        assert (await poll(onb, started))["status"] == "connected"
        assert await count(world, started) == [
            "connection_started",
            "connection_returned",
            "connection_exchange_started",
            "connection_granted",
        ]


async def test_a_form_is_good_for_one_answer(world: World, provider: FakeProvider) -> None:
    """Eight answers at once exchange the code once, and the grant is kept."""
    for _ in range(3):
        provider.requests.clear()
        onb = await onboard(world)
        started = await start(onb)
        page = visit(sent_back(started))
        form = {**form_of(page), "decision": "allow"}
        answers = await at_once(8, lambda _, f=form: answered(world, f))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 410: 7}
        assert len(provider.calls("/oauth/token/")) == 1
        assert provider.calls("/oauth/revoke/") == []
        assert (await poll(onb, started))["status"] == "connected"
        assert press(page).status_code == 410
        assert press(page, "deny").status_code == 410
        assert (await poll(onb, started))["status"] == "connected", "a grant is not denied afterwards"


async def test_polls_race_with_the_answer(world: World, provider: FakeProvider) -> None:
    """Whatever the order, nobody is told anything but pending and connected, and nothing is exchanged twice."""
    for _ in range(3):
        provider.requests.clear()
        onb = await onboard(world)
        started = await start(onb)
        form = {**form_of(visit(sent_back(started))), "decision": "allow"}
        *told, done = await asyncio.gather(*(poll(onb, started) for _ in range(8)), answered(world, form))
        assert {answer["status"] for answer in told} <= {"pending", "connected"}
        assert done.status_code == 200
        assert (await poll(onb, started))["status"] == "connected"
        assert len(provider.calls("/oauth/token/")) == 1


async def test_agreeing_and_refusing_at_once(world: World, provider: FakeProvider) -> None:
    """One of them decides. A refusal that comes first exchanges nothing."""
    for _ in range(4):
        provider.requests.clear()
        onb = await onboard(world)
        started = await start(onb)
        fields = form_of(visit(sent_back(started)))
        forms = [{**fields, "decision": decision} for decision in ("allow", "deny") * 3]
        answers = await at_once(6, lambda n, f=forms: answered(world, f[n]))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 410: 5}
        status = (await poll(onb, started))["status"]
        exchanged = len(provider.calls("/oauth/token/"))
        assert (status, exchanged) in {("connected", 1), ("denied", 0)}


async def test_expiry_races_with_the_answer(world: World, provider: FakeProvider) -> None:
    """When the time ends in the same moment, it expires or connects, and a grant that came too late is given back."""
    ends = set()
    for turn in range(6):
        provider.requests.clear()
        onb = await onboard(world)
        started = await start(onb)
        form = {**form_of(visit(sent_back(started))), "decision": "allow"}
        if turn == 0:
            await world.wait(900)
        polls = [poll(onb, started) for _ in range(4)]
        done, *_ = await asyncio.gather(answered(world, form), world.wait(900), *polls)
        status = (await poll(onb, started))["status"]
        exchanged, given_back = (len(provider.calls(f"/oauth/{path}/")) for path in ("token", "revoke"))
        ends.add((done.status_code, status, exchanged, given_back))
        assert len(await count(world, started)) == 3 + exchanged
    assert ends <= {(200, "connected", 1, 0), (410, "expired", 0, 0), (410, "expired", 1, 1)}
    assert (410, "expired", 0, 0) in ends


async def test_an_exchange_that_never_ended_expires(world: World, provider: FakeProvider) -> None:
    """After a minute without an outcome the sign-in is over. A grant that comes later is given back (G-164)."""
    onb = await onboard(world)
    started = await start(onb)
    form = {**form_of(visit(sent_back(started))), "decision": "allow"}
    arrived, leave = threading.Event(), threading.Event()

    def hold(handler: Any) -> None:
        arrived.set()
        leave.wait(30)
        handler.reply(200, b'{"access_token": "pha_late", "refresh_token": "phr_late"}')

    provider.fail = {"/oauth/token/": hold}
    answering = asyncio.create_task(answered(world, form))
    try:
        assert await asyncio.to_thread(arrived.wait, 10)
        assert (await answered(world, form)).status_code == 410, "nobody exchanges the code beside the first"
        await world.wait(60)
        assert (await poll(onb, started))["status"] == "expired"
    finally:
        leave.set()
    assert (await answering).status_code == 410, "what comes afterwards is not kept"
    assert [form["token"] for form in provider.calls("/oauth/revoke/")] == ["phr_late"]
    assert (await poll(onb, started))["status"] == "expired"
    [[sealed]] = await world.sql("select sealed from provider_grants where id = %s", started["connection_id"])
    assert sealed is None


async def test_a_process_that_dies_during_the_exchange(
    world: World, server: ServerHandle, provider: FakeProvider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The beginning is recorded before the request, so nobody exchanges the code again, and the human starts anew."""
    onb = await onboard(world)
    started = await start(onb)
    form = {**form_of(visit(sent_back(started))), "decision": "allow"}
    arrived, leave = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        arrived.set()
        leave.wait(30)

    doomed = ServerHandle(tmp_path_factory.mktemp("doomed"), database_url=server.database_url, env=provider.env)
    doomed.start()
    try:
        provider.fail = {"/oauth/token/": hold}
        async with seen.async_client(doomed.base_url, timeout=30) as client:
            lost = asyncio.create_task(client.post(CALLBACK, data=form))
            assert await asyncio.to_thread(arrived.wait, 10)
            doomed.kill()
            with pytest.raises(httpx2.HTTPError):
                await lost
    finally:
        provider.fail = {}
        leave.set()
        doomed.stop()
    assert (await poll(onb, started))["status"] == "pending"
    assert (await answered(world, form)).status_code == 410
    await world.wait(60)
    assert (await poll(onb, started))["status"] == "expired"
    assert await count(world, started) == [
        "connection_started",
        "connection_returned",
        "connection_exchange_started",
        "connection_expired",
    ]
    started = await start(onb)
    grant(started)
    assert (await poll(onb, started))["status"] == "connected"


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_exchange_while_the_provider_takes_no_requests_is_503(
    world: World, provider: FakeProvider, status: int
) -> None:
    """With its Retry-After; the code is spent, so that the sign-in has ended (G-205)."""
    onb = await onboard(world)
    started = await start(onb)
    page = visit(sent_back(started))
    provider.fail = {"/oauth/token/": lambda handler: handler.reply(status, b"{}", {"retry-after": "11"})}
    pressed = press(page)
    assert (pressed.status_code, pressed.headers["retry-after"]) == (503, "11")
    assert "takes no requests" in pressed.text
    provider.fail = {}
    assert (await poll(onb, started))["status"] == "expired"


async def test_a_sign_in_of_the_former_flow_expires(world: World, provider: FakeProvider) -> None:
    """What was pending before this release has a device code and no verifier: it ends at its next poll."""
    onb = await onboard(world)
    started = await start(onb)
    former = '{"device_code":"d","access_token":null,"refresh_token":null,"expires_at":0}'
    scope = f"{onb.project_id}/{started['connection_id']}"
    sealed = seal(bytes.fromhex(ENCRYPTION_KEY), "provider-grant", scope, former)
    await world.sql("update provider_grants set sealed = %s where id = %s", sealed, started["connection_id"])
    assert visit(sent_back(started)).status_code == 410
    assert (await poll(onb, started))["status"] == "expired"
    assert await count(world, started) == ["connection_started", "connection_expired"]


async def test_a_lured_human_sees_another_code(world: World, provider: FakeProvider) -> None:
    """Each sign-in has a code of its own; the form of one does not answer another."""
    mine, theirs = await onboard(world), await onboard(world)
    first, second = await start(mine), await start(theirs)
    assert first["user_code"] != second["user_code"]
    page, other = visit(sent_back(first)), visit(sent_back(second))
    assert first["user_code"] in page.text
    assert first["user_code"] not in other.text
    crossed = {"state": form_of(page)["state"], "token": form_of(other)["token"], "decision": "allow"}
    assert (await answered(world, crossed)).status_code == 410
    assert provider.calls("/oauth/token/") == []
    assert press(page).status_code == 200
    assert [(await poll(*each))["status"] for each in ((mine, first), (theirs, second))] == ["connected", "pending"]


async def test_who_knows_the_state_alone_cannot_answer(world: World, provider: FakeProvider) -> None:
    """The caller who began the sign-in has its state. The code of the human's grant is bound to another visit."""
    onb = await onboard(world)
    started = await start(onb)
    state = dict(parse_qsl(urlsplit(started["authorization_url"]).query))["state"]
    for token in ("", "x", state):
        form = {"state": state, "token": token, "decision": "allow"}
        assert (await answered(world, form)).status_code == 410
    early = await world.client.get(CALLBACK, params={"state": state, "code": "made-up"})
    assert early.status_code == 200
    assert visit(sent_back(started)).status_code == 410, "the human's own visit finds the state used"
    assert press(early).status_code == 502, "the provider does not know that code"
    assert (await poll(onb, started))["status"] == "expired"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "state=",
        "state=x",
        "code=x",
        "state=x&code=",
        "state=x&state=y&code=z",
        "state=x&code=z&code=z",
        "state=%00&code=z",
        "state=x&code=%00",
        "state=x&code=%FF",
        "state=x&code=" + "z" * 2049,
        "state=" + "z" * 301 + "&code=z",
        "state=x&error=" + "z" * 201,
    ],
)
async def test_addresses_of_no_form(world: World, provider: FakeProvider, query: str) -> None:
    """A provider sends a state with a code or an error, each once."""
    refused(await world.client.get(f"{CALLBACK}?{query}"), 400, "invalid_payload")


@pytest.mark.parametrize(
    "state",
    ["x", "conn_0", "conn_00000000000000000000000000", "conn_00000000000000000000000000.x", "é", ".", "' or 1=1"],
)
@pytest.mark.parametrize("rest", [{"code": "x"}, {"error": "access_denied"}, {"code": "x", "error": "y"}])
async def test_states_that_never_were(world: World, provider: FakeProvider, state: str, rest: dict[str, str]) -> None:
    """They look like used ones."""
    page = await world.client.get(CALLBACK, params={"state": state, **rest})
    assert (page.status_code, "was used, or has expired" in page.text) == (410, True)
    answer = await answered(world, {"state": state, "token": "x", "decision": "allow"})
    assert (answer.status_code, answer.text) == (410, page.text)


async def test_a_head_uses_nothing_up(world: World, provider: FakeProvider) -> None:
    """Who only looks whether an address answers does not end a sign-in."""
    onb = await onboard(world)
    started = await start(onb)
    address = sent_back(started)
    head = await world.client.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert await count(world, started) == ["connection_started"]
    assert press(visit(address)).status_code == 200


@pytest.mark.parametrize(
    ("body", "media", "status", "code"),
    [
        (b"", FORM, 400, "invalid_payload"),
        (b"state=x", FORM, 400, "invalid_payload"),
        (b"state=x&token=y", FORM, 400, "invalid_payload"),
        (b"state=x&token=y&decision=allow&more=1", FORM, 400, "invalid_payload"),
        (b"state=x&token=y&decision=allow&decision=deny", FORM, 400, "invalid_payload"),
        (b"state=x&token=%00&decision=allow", FORM, 400, "invalid_payload"),
        (b"state=x&token=%FF&decision=allow", FORM, 400, "invalid_payload"),
        (b"state=x&token=\xff&decision=allow", FORM, 400, "invalid_payload"),
        (b"&" * 100, FORM, 400, "invalid_payload"),
        (b"state=x&token=y&decision=" + b"a" * 21, FORM, 400, "invalid_payload"),
        (b"state=x&token=y&decision=allow", "application/json", 415, "unsupported_media_type"),
        (b"state=x&token=y&decision=allow", "multipart/form-data", 415, "unsupported_media_type"),
        (b"state=x&token=y&decision=" + b"a" * 4096, FORM, 413, "payload_too_large"),
    ],
)
async def test_forms_that_are_none(
    world: World, provider: FakeProvider, body: bytes, media: str, status: int, code: str
) -> None:
    """Only the form of our page is read."""
    refused(await world.client.post(CALLBACK, content=body, headers={"content-type": media}), status, code)
