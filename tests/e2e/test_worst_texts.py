"""The longest texts of the dearest characters, in every field: no step of the event loop is long for them (P25).

What a page, a tool or an operation computes from stored texts is measured by the processor time of the loop's thread.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from service.http.edge.routes import all_endpoints
from service.http.mcp.tools import READS
from statemachines.onboarding import lifecycle
from tests.e2e.test_tenants import server as server  # noqa: PLC0414 (a fixture is found by name)
from tests.e2e.worst.filling import Stretcher, Stuffer, limits
from tests.e2e.worst.reading import Reader, Request
from tests.support import seen
from tests.support.fullscene import NO_PAGES
from tests.support.mcp import META, headers_of
from tests.support.naughty.judging import ShownPage
from tests.support.naughty.places import ROOT, declared, page_of, places
from tests.support.naughty.scene import cookie_of, operator_cookie
from tests.support.plans import plan_body
from tests.support.server import ServerHandle
from tests.support.tenants.recording import Exchange
from tests.support.tenants.tour import Tenant, hand_over, take_tour

EACH = 2
"""Pages of one kind that are read."""
MOVING = {"operator"}
"""Places whose figures count the requests of the test itself."""


@dataclass
class Filled:
    """A service full of such texts: who sees them, where to begin, and what was asked for meanwhile."""

    server: ServerHandle
    cookie: str
    guest: str
    invitation: str
    key: str
    known: Sequence[str]
    exchanges: Sequence[Exchange]
    stretched: set[str]


@pytest.fixture(scope="module")
def filled(server: ServerHandle) -> Iterator[Filled]:
    transport = Stretcher()
    with Tenant(server, transport, "worst") as tenant, seen.client(server.base_url, timeout=60) as client:
        hand_over(tenant, take_tour(tenant))
        replace_plan(tenant)
        stuffer = Stuffer(server, client, tenant.owner_key, 0)
        known = stuffer.fill()
        cookie, guest = (cookie_of(server, tenant, key) for key in (tenant.owner_key, stuffer.guest_key))
        named = {(name, value) for one in transport.exchanges for name, value in one.sent.path.items()}
        known += [f"streams/{value}?from=0&to=1" for name, value in sorted(named) if name in {"run_id", "case_id"}]
        known += [f"streams?stream_id={value}" for name, value in sorted(named) if name == "project_id"]
        [project_id, *_] = [value for name, value in sorted(named) if name == "project_id"]
        known += [
            address.format(project_id=project_id)
            for address in declared()
            if address.count("{") == 1 and "{project_id}" in address
        ]
        reports = [one for one in transport.exchanges if one.sent.operation.operation_id == "record_report"]
        known += [f"runs/{one.sent.path['run_id']}/report" for one in reports]
        known += [f"runs/{value}" for name, value in sorted(named) if name == "run_id"]
        yield Filled(
            server, cookie, guest, stuffer.invitation, tenant.owner_key, known, transport.exchanges, transport.stretched
        )


def replace_plan(tenant: Tenant) -> None:
    """Hand in a plan, which waits for approval, and another one in its place."""
    path = f"/v1/projects/{tenant.create_project('replaced')['id']}/onboarding"
    state = tenant.call("POST", path, {"intent": "start", "plan": plan_body()}, tenant.owner_key)
    wish = {"decision": "replace", "plan_sha256": state["plan_sha256"], "replacement_plan": plan_body()}
    tenant.call("POST", f"{path}/review", wish, tenant.owner_key, if_match=state["etag"])


@pytest.fixture(scope="module")
def reader(filled: Filled) -> Iterator[Reader]:
    settings = {name: value for name, value in filled.server.env.items() if name.startswith("SERVICE_")}
    found = Reader(settings, filled.server.base_url)
    yield found
    found.close()


def test_every_text_field_was_taken_at_its_longest(filled: Filled) -> None:
    assert sorted(set(limits()) - filled.stretched) == []


def test_what_is_public_is_made_outside_of_the_loop(reader: Reader) -> None:
    """The first reads of a process: documents, their index and the pages of the docs are made once, and not there."""
    paths = [
        one.operation.path for one in all_endpoints() if one.operation.method == "GET" and "{" not in one.operation.path
    ]
    requests = [Request(path, "GET", path, {}) for path in paths]
    requests += [Request(f"{path} of a browser", "GET", path, {"accept": "text/html"}) for path in paths]
    requests += [
        Request("a page for strangers", "GET", f"{ROOT}/settings", {}),
        Request("search", "GET", "/docs/search?q=case", {}),
    ]
    reader.ask(requests)
    assert reader.told() == ""


def test_four_long_summaries_of_brackets_on_one_page(filled: Filled, reader: Reader) -> None:
    """They took 20 s of the loop."""
    with filled.server.client(filled.key) as client:
        project = client.post("/v1/projects", json={"name": "Brackets"}).json()
        error = {"message": "It broke", "level": "error"}
        headers = {"authorization": f"Bearer {project['dsn']}"}
        case_id = client.post("/v1/logs/", json=error, headers=headers).raise_for_status().json()["case_id"]
        for _ in range(4):
            body = {"status": "escalated", "summary_md": "[" * 20_000}
            client.post(f"/v1/cases/{case_id}/runs", json=body).raise_for_status()
    [answer] = reader.ask([Request("brackets", "GET", f"{ROOT}/cases/{case_id}", {"cookie": filled.cookie})])
    assert answer.status == 200
    assert answer.text.count("[") >= 80_000
    assert reader.told() == ""


def test_two_moments_of_a_large_plan(filled: Filled, reader: Reader) -> None:
    """Two plans of 60 milestones took 25 s of the loop. They have too many lines to be compared, and are both shown."""
    with filled.server.client(filled.key) as client:
        project_id = client.post("/v1/projects", json={"name": "Milestones"}).json()["id"]
        path, plans = f"/v1/projects/{project_id}/onboarding", [plan_of(60, "first"), plan_of(60, "other")]
        state = client.post(path, json={"intent": "start", "plan": plans[0]}).raise_for_status().json()
        wish = {"decision": "replace", "plan_sha256": state["plan_sha256"], "replacement_plan": plans[1]}
        answer = client.post(f"{path}/review", json=wish, headers={"if-match": state["etag"]})
        assert answer.is_success, answer.text
    cookie, place = {"cookie": filled.cookie}, f"{ROOT}/streams/{lifecycle.stream(project_id).id}"
    give_up = time.monotonic() + 30
    while (
        "The stream has" in (answer := reader.ask([Request("moments", "GET", f"{place}?from=1&to=2", cookie)])[0]).text
    ):
        assert time.monotonic() < give_up  # Its events get their positions a moment later.
    assert answer.status == 200
    assert "too many lines" in answer.text
    assert {f"{name}_{number}" in answer.text for name in ("first", "other") for number in range(60)} == {True}
    [answer] = reader.ask([Request("no moments", "GET", f"{place}?from=1&to=1", cookie)])
    assert "The states are equal" in answer.text
    assert reader.told() == ""


def plan_of(milestones: int, name: str) -> dict[str, Any]:
    """A plan with so many milestones, all of another name."""
    plan = plan_body()
    [first, *_] = plan["milestones"]
    plan["milestones"] = [first | {"event": f"{name}_{number}"} for number in range(milestones)]
    return plan


def _visit(place: str, cookie: str, *, offloaded: bool = False) -> Request:
    return Request(place, "GET", f"{ROOT}/{place}".rstrip("/"), {"cookie": cookie}, offloaded=offloaded)


def test_no_page_is_dear_for_the_loop(filled: Filled, reader: Reader) -> None:
    """All pages that one leads to another, whatever stands on them. Rendered elsewhere they are the same."""
    found, shown_of = set[str](), dict[str, tuple[str, str, str]]()
    for own, known, each in (
        (filled.cookie, filled.known, EACH),
        (filled.guest, [f"invitations/{filled.invitation}"], 1),
    ):
        way = places([*known, "operator"], each)
        place: str | None = next(way)
        while place is not None:
            cookie = operator_cookie(filled.server) if place == "operator" else own
            [answer] = reader.ask([_visit(place, cookie)])
            assert answer.status == 200, f"{place}: {answer.status} {answer.text}"
            shown = httpx2.Response(answer.status, text=answer.text, headers=answer.headers)
            page = page_of(place, shown)
            if page is not None:
                found.add(page.address)
                shown_of.setdefault(page.address, (place, cookie, answer.text))
            place = next_of(way, page)
    assert found == declared() - NO_PAGES
    again = [_visit(place, cookie, offloaded=True) for place, cookie, _ in shown_of.values()]
    for (place, cookie, text), answer in zip(shown_of.values(), reader.ask(again), strict=True):
        if place in MOVING or plain(answer.text) == plain(text):
            continue
        # A sweep may have moved what the page shows since the first visit: both ways once more, right after each other.
        here, elsewhere = reader.ask([_visit(place, cookie), _visit(place, cookie, offloaded=True)])
        assert plain(elsewhere.text) == plain(here.text), place
    assert reader.told() == ""


def test_no_read_is_dear_for_the_loop(filled: Filled, reader: Reader) -> None:
    """Every read of the tour once more, and the same by the tools of MCP."""
    asked: dict[str, Request] = {}
    with filled.server.client() as builder:
        for exchange in filled.exchanges:
            sent = exchange.sent
            if (
                sent.operation.mutation
                or exchange.got.status >= 300
                or sent.operation.docs.content_type == "application/x-tar"
            ):
                continue
            request = sent.build(builder)
            name = f"{sent.operation.operation_id} {sorted(sent.path.values())} {sorted(sent.query)}"
            asked[name] = Request(
                name, request.method, str(request.url), dict(request.headers), request.read().decode()
            )
            if sent.operation.method == "GET" and sent.secret == filled.key:
                for tool in {"read", sent.operation.operation_id} & {"read", *READS}:
                    values = {**sent.path, **sent.query}
                    of_any = {"operation": sent.operation.operation_id, "parameters": values}
                    asked[f"{tool} {name}"] = called(tool, of_any if tool == "read" else values, filled.key)
    statuses = [answer.status for answer in reader.ask(list(asked.values()))]
    assert statuses.count(200) > len(statuses) * 0.8, list(zip(asked, statuses, strict=True))
    assert reader.told() == ""


def plain(page: str) -> str:
    """A page without what differs each time: keys of forms, hashes of the log, and the time."""
    page = re.sub(r'(name="_key" value=")[^"]*', r"\1", page)
    page = re.sub(r"[A-Za-z0-9+/=]{12,}…?", "~", page)  # ids and hashes: the log goes on, and its root with it
    return re.sub(r"\d+", "0", re.sub(r"(\d+ (s|min|h|d) )+ago", "ago", page))


def next_of(way: Generator[str, ShownPage | None, None], page: ShownPage | None) -> str | None:
    """The next place of a crawl. None at its end."""
    try:
        return way.send(page)
    except StopIteration:
        return None


def called(tool: str, arguments: dict[str, object], key: str) -> Request:
    """A call of a tool."""
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {**headers_of("tools/call", params), "authorization": f"Bearer {key}", "content-type": "application/json"}
    return Request(f"{tool} {arguments}", "POST", "/mcp", headers, json.dumps(body))
