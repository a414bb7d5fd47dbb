"""By which name a request takes its turns: strangers share one place, and inside it have one by address (G-204)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import pytest
import pytest_asyncio

from service.auth.authority import PrincipalKind
from service.auth.refusals import ServiceUnavailable
from service.console import door
from service.eventstore.read.reader import reads_for
from service.fairness.turns import NOBODY, PUBLIC_QUERIES, SIGN_IN, STRANGERS, sharing
from service.http.body.read_limited import MEMBERS_PART, body_room
from service.http.edge import framework
from service.http.edge.limits import crowd_of_place
from service.http.edge.pipeline import MAX_RUNNING, MOST_OF_PLACE
from service.http.edge.routes import all_endpoints
from tests.service.http.edge.fakes import PRINCIPALS
from tests.service.http.edge.toy_api import Toy, serving

PLACES = {
    "get_live": NOBODY,
    "get_ready": NOBODY,
    "get_metrics": NOBODY,
    "start_device": SIGN_IN,
    "poll_device": SIGN_IN,
    "show_device_page": SIGN_IN,
    "console_sign_in": SIGN_IN,
    "console_enter": SIGN_IN,
    "console_oidc": SIGN_IN,
    "console_oidc_callback": SIGN_IN,
    "run_public_query": PUBLIC_QUERIES,
}


@pytest_asyncio.fixture
async def behind() -> AsyncIterator[Toy]:
    """A toy that believes what a proxy says of addresses."""
    async with serving(trusted_proxies=(ip_network("127.0.0.0/8"),)) as toy:
        yield toy


def test_each_open_operation_has_its_place() -> None:
    """Whatever is added is a stranger's unless it is named here."""
    found = {
        endpoint.operation.operation_id: endpoint.operation.who.place
        for endpoint in (*all_endpoints(), *door.ENDPOINTS)
        if PrincipalKind.ANONYMOUS in endpoint.operation.who.principals and endpoint.operation.who.place != STRANGERS
    }
    assert found == PLACES


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:9::9", "2001:db8:1:2::/64"),
    ],
)
async def test_a_stranger_takes_turns_by_address_in_the_shared_place(
    behind: Toy, monkeypatch: pytest.MonkeyPatch, address: str, counted: str
) -> None:
    """Of reads, bodies and commands alike: the principal has the same name."""
    name = sharing(STRANGERS, counted)
    [tenants, holders] = await _names_of(behind, monkeypatch, "POST", "/v1/raw", {"x-forwarded-for": address})
    assert (tenants, holders) == ([name], [name])


async def test_only_a_secret_that_was_somebodys_has_a_turn_before_it_is_looked_up(
    behind: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes keys up, one for each request, has the place of one stranger."""
    looked_up: list[str | None] = []
    authenticator: Any = behind.edge.pipeline.services.authenticator  # type: ignore[union-attr]
    authenticate = authenticator.authenticate

    async def heard(*args: Any, **named: Any) -> Any:
        looked_up.append(reads_for())
        return await authenticate(*args, **named)

    monkeypatch.setattr(authenticator, "authenticate", heard)
    for who, status in (("owner", 200), ("made-up-1", 401), ("made-up-2", 401)):
        answer = await behind.send_as(who, "GET", "/v1/things", headers={"x-forwarded-for": "192.0.2.7"})
        assert answer.status_code == status
    assert looked_up == ["owner", *[sharing(STRANGERS, "192.0.2.7")] * 2]
    [tenants, _] = await _names_of(behind, monkeypatch, "GET", "/v1/things", {"authorization": "Bearer owner"})
    assert tenants == [PRINCIPALS["owner"].tenant]


async def _names_of(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, method: str, path: str, headers: dict[str, str]
) -> tuple[list[str | None], list[str]]:
    """By which names a request's handler reads, and its body is held."""
    pipeline = toy.edge.pipeline
    tenants: list[str | None] = []
    holders: list[str] = []
    of, answer = pipeline.bodies.of, framework.answer

    async def heard(exchange: Any, made: Any) -> Any:
        tenants.append(reads_for())
        assert exchange.call.principal.tenant == reads_for()
        return await answer(exchange, made)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline.bodies, "of", lambda holder: holders.append(holder) or of(holder))
        patch.setattr(framework, "answer", heard)
        assert (await toy.request(method, path, headers=headers)).status_code == 200
    return tenants, holders


async def test_a_crowd_of_strangers_leaves_room_for_others(toy: Toy) -> None:
    """Where as many strangers wait as may, the next is refused, and who has a credential is not."""
    crowd = toy.edge.pipeline.crowd
    for number in range(4):
        crowd.bounds.add(sharing(STRANGERS, f"192.0.2.{number}"), MOST_OF_PLACE // 4)
    assert (await toy.get("/")).status_code == 503
    assert (await toy.send_as("owner", "GET", "/v1/things")).status_code == 200
    crowd.bounds.add(sharing(STRANGERS, "192.0.2.1"), -1)
    assert (await toy.get("/")).status_code == 200
    assert MOST_OF_PLACE < MAX_RUNNING
    for number in range(4):
        crowd.bounds.add(sharing(STRANGERS, f"192.0.2.{number}"), (number == 1) - MOST_OF_PLACE // 4)


async def test_nothing_stays_counted_as_of_a_crowd(toy: Toy) -> None:
    await asyncio.gather(*(toy.get("/") for _ in range(10)), toy.get("/v1/things"), toy.post("/v1/raw", content=b"x"))
    assert len(toy.edge.pipeline.crowd) == 0


def test_one_address_has_a_part_of_the_crowd() -> None:
    crowd = crowd_of_place(4, 2)
    one, other, entering = sharing(STRANGERS, "a"), sharing(STRANGERS, "b"), sharing(SIGN_IN, "a")
    crowd.bounds.add(one, 2)
    with pytest.raises(ServiceUnavailable):
        crowd.check(one, 1)
    for tenant in (other, entering, NOBODY):
        crowd.check(tenant, 1)
    crowd.bounds.add(other, 2)
    with pytest.raises(ServiceUnavailable):
        crowd.check(sharing(STRANGERS, "c"), 1)
    crowd.check(entering, 1)


def test_strangers_have_one_share_of_the_bodies_and_one_address_a_part_of_it() -> None:
    room = body_room(1000, 100)
    part = 100 // MEMBERS_PART
    for number in range(MEMBERS_PART):
        holder = sharing(STRANGERS, f"192.0.2.{number}")
        room.of(holder).take(part)
        with pytest.raises(Exception, match="total size limit"):
            room.of(holder).take(1)
    with pytest.raises(Exception, match="total size limit"):
        room.of(sharing(STRANGERS, "192.0.2.99")).take(1)
    room.of("usr_1").take(100)
    assert room.held == 200
