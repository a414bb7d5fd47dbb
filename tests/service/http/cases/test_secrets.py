"""A secret of any form in any member of an event, by any door, is found nowhere afterwards (G-033, G-135)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx2
import pytest

from service.console import site
from service.packing import unpack
from statemachines.kernel.telling import FORMS
from tests.support import archives
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import browser_of
from tests.support.listening import listening
from tests.support.mcp import Agent
from tests.support.sentry import of_event
from tests.support.tenants.tour import PROJECT, reads_of_projects

pytestmark = pytest.mark.shares_server

GOLDEN = Path(__file__).parents[3] / "golden" / "scrubbing" / "secrets.json"
OWN = "service_secret"
NAMED = "n4med-cr3dential"
FILLING = "the rest of a large event, " * 100
"""So that what stands beside the columns is packed."""
TABLES = (
    "select c.relname, exists(select from pg_attribute a where a.attrelid = c.oid and a.attname = 'project_id') "
    "from pg_class c where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace"
)


class Sample(NamedTuple):
    """A text with a secret of a form, and the secret."""

    kind: str
    text: str
    core: str


def samples() -> list[Sample]:
    """One of each form, and a secret of this service."""
    own = "service_sk_" + "a1B2" * 10
    found = {OWN: Sample(OWN, f"see {own} here", own)}
    for case in json.loads(GOLDEN.read_text())["texts"]:
        kind = case["kinds"][0]
        before, _, after = case["shown"].partition(f"[scrubbed:{kind}]")
        core = case["text"].removeprefix(before).removesuffix(after)
        # A key of several lines is looked for by its inner one.
        found.setdefault(kind, Sample(kind, case["text"], core.split("\n")[len(core.split("\n")) // 2]))
    assert set(found) == {OWN, *(form.kind for form in FORMS)}
    return list(found.values())


SAMPLES = samples()


def frame(text: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(("module", "package", "context_line", "abs_path", "instruction_addr"), text),
        "function": "f", "filename": "a.py", "in_app": True, "lineno": 3, "pre_context": [text], "post_context": [text],
        "vars": {"x": text, "password": NAMED}, "code_variables": {"x": text, "password": NAMED},
    }  # fmt: skip


def held(text: str) -> dict[str, Any]:
    """The members that Sentry's SDKs send, and products in `extra`."""
    told = {"note": text, text: 1, "password": NAMED, "deep": [{"note": text}]}
    return {
        **dict.fromkeys(("transaction", "server_name", "logger", "dist", "platform"), text),
        "contexts": {"runtime": {"name": text}, "Custom": told, "response": {"data": text, "headers": {"A": text}}},
        "extra": told,
        "request": {"url": f"https://shop.example/?password={NAMED}&note={text}", "data": text, "query_string": text,
                    "headers": {"X-Note": text, "Authorization": NAMED, "Cookie": NAMED}, "cookies": {"a": NAMED},
                    "env": {"NOTE": text}, "method": text},
        "breadcrumbs": [{"message": text, "category": text, "data": told}],
        "fingerprint": ["fixed", text],
        "sdk": {"name": text, "version": text},
    }  # fmt: skip


def exception(text: str) -> dict[str, Any]:
    error = {"type": text, "value": text, "module": text, "mechanism": {"type": text, "data": {"code": text}}}
    return {"values": [{**error, "stacktrace": {"frames": [frame(text)]}}] * 2}


def of_sentry(text: str) -> dict[str, Any]:
    return {
        **held(text), "level": "error", "message": text, "logentry": {"message": "%s", "params": [text]},
        "exception": exception(text), "user": {"id": "u1", "username": text, "name": text},
        "tags": {"note": text, "password": NAMED}, "event_id": uuid4().hex,
        "debug_meta": {"images": [{"type": text, "code_file": text, "debug_id": text}]},
    }  # fmt: skip


def of_posthog(text: str) -> dict[str, Any]:
    properties = {
        **dict.fromkeys(("$os", "$browser", "$current_url", "$lib_version", "$app_name", "$exception_message"), text),
        "$exception_list": [{**exception(text)["values"][0]}], "$exception_level": "error", "plan": text,
        "password": NAMED, "deep": {"note": [text]}, text: 1, "$exception_fingerprint": text,
    }  # fmt: skip
    return {"event": "$exception", "distinct_id": "u1", "uuid": str(uuid4()), "properties": properties}


def of_opentelemetry(text: str) -> dict[str, Any]:
    def said(*keys: str) -> list[dict[str, Any]]:
        values = [{"key": key, "value": {"stringValue": text}} for key in keys]
        deep = {"kvlistValue": {"values": [{"key": "note", "value": {"stringValue": text}}]}}
        return [*values, {"key": "deep", "value": deep}, {"key": "password", "value": {"stringValue": NAMED}}]

    record = {
        "severityNumber": 17, "severityText": text, "body": {"stringValue": text}, "eventName": text,
        "attributes": said("exception.type", "exception.message", "exception.stacktrace", "url.full", "note", text),
    }  # fmt: skip
    scope = {"scope": {"name": text}, "logRecords": [record]}
    return {
        "resourceLogs": [{"resource": {"attributes": said("service.name", "host.name", text)}, "scopeLogs": [scope]}]
    }


def of_native(text: str) -> dict[str, Any]:
    thrown = {"type": text, "value": text, "frames": [frame(text)], "causes": [{"type": text, "frames": [frame(text)]}]}
    return {
        "level": "error", "message": text, "tags": {"note": text, text: "a", "password": NAMED},
        "user": {"id": "u1", "email": text, "note": text, "password": NAMED},
        "extra": {**held(text), "exception": thrown, "note": text, "deep": {text: [text]}, "filling": FILLING},
    }  # fmt: skip


async def send(world: World, project: dict[str, Any], door: str, text: str) -> None:
    """Send an event with a text in each of its members."""
    dsn = world.having(project["dsn"])
    if door == "sentry":
        address = httpx2.URL(project["sdks"]["sentry_dsn"])
        auth = {"x-sentry-auth": f"Sentry sentry_key={address.username}, sentry_version=7"}
        ok(await world.call("POST", f"/api{address.path}/envelope/", content=of_event(of_sentry(text)), headers=auth))
    elif door == "posthog":
        body = {"api_key": project["sdks"]["posthog_key"], "batch": [of_posthog(text)]}
        ok(await world.call("POST", "/batch/", content=json.dumps(body).encode()))
    elif door == "opentelemetry":
        ok(await dsn.post("/v1/logs", of_opentelemetry(text)))
    else:
        ok(await dsn.post("/v1/logs/", of_native(text)), 202)


DOORS = ["native", *(pytest.param(door, marks=pytest.mark.release) for door in ("sentry", "posthog", "opentelemetry"))]
"""By which secrets come. `make test` tries the first, `make test-release` the others."""


async def database(world: World, project_id: str, wanted: list[str]) -> list[str]:
    """The tables with one of these texts in a row of the project, or in any row where rows belong to none."""
    found = []
    for table, has_project in await world.sql(TABLES):
        mine = "t.project_id = %s" if has_project else "%s::text is not null"
        rows = await world.sql(
            f'select count(*) from "{table}" t where {mine} '
            "and exists(select from unnest(%s::text[]) c where strpos(t::text, c) > 0)",
            project_id,
            [*wanted, *(one.encode().hex() for one in wanted)],
        )
        found += [table] if rows != [(0,)] else []
    packed = await world.sql("select packed from log_events where project_id = %s and packed is not null", project_id)
    return found + ["packed" for [one] in packed if any(text in json.dumps(unpack(one)) for text in wanted)]


@pytest.mark.parametrize("door", DOORS)
async def test_a_secret_in_any_member_is_found_nowhere(world: World, door: str) -> None:
    """In the database, the answers, the pages, MCP, a runner's bundle, webhooks, the archive, and the log."""
    owner = await world.sign_in()
    project = await owner.create_project()
    path, wanted = f"/v1/projects/{project['id']}", [*(one.core for one in SAMPLES), NAMED]
    ok(await owner.call("PATCH", f"{path}/settings", {"frame_variables": True}))
    texts: dict[str, str] = {}
    async with listening() as listener:
        ok(await owner.post(f"{path}/webhooks", {"url": listener.url, "events": ["*"]}), 201)
        for one in SAMPLES:
            await send(world, project, door, one.text)
        cases = ok(await owner.get(f"{path}/cases"))["cases"]
        await listener.until(lambda: listener.events().count("case.created") >= len(cases) > 0)
        texts["webhook"] = "".join(str(arrived) for arrived in listener.arrived)
    runner = await owner.create_credential(
        project["id"], "runner", kind="automation_runner", automation_id="error-to-draft-pr"
    )
    events = await world.sql("select case_id, id from log_events where project_id = %s", project["id"])
    assert len(events) == len(SAMPLES)
    case_ids = sorted({case_id for case_id, _ in events})
    reads = [one.replace(PROJECT, path) for one in reads_of_projects()] + [f"{path}/users/u1/summary"]
    reads += [f"/v1/cases/{case_id}{more}" for case_id in case_ids for more in ("", "/events", "/users", "/common")]
    reads += [f"/v1/cases/{case_id}/events/{event_id}" for case_id, event_id in events]
    for read in reads:
        answer = await owner.get(read)
        texts[read] = archived(answer.content) if read.endswith("/archive") else answer.text
    agent = Agent(owner)
    browser = await browser_of(owner)
    for case_id, event_id in events:
        seen = {"case_id": case_id, "event_id": event_id}
        for operation in ("get_case_event", "read_case", "list_case_events"):
            names = seen if operation == "get_case_event" else {"case_id": case_id}
            asked = {"name": "read", "arguments": {"operation": operation, "parameters": names}}
            texts[f"mcp {operation} {event_id}"] = json.dumps(await agent.result("tools/call", asked))
        texts[f"bundle {case_id}"] = (await world.having(runner["credential"]).get(f"/v1/cases/{case_id}")).text
        texts[f"unmangled {case_id}"] = (await owner.post(f"/v1/cases/{case_id}/unmangle", {})).text
        for place in addresses({**seen, "project_id": project["id"]}):
            if place not in texts:
                texts[place] = (await browser.open(place)).html
    texts["log"] = world.server.log()
    assert any("[scrubbed" in text for text in texts.values())
    assert [(place, core) for place, text in texts.items() for core in wanted if core in text] == []
    assert await database(world, project["id"], wanted) == []
    assert "log_events" in await database(world, project["id"], ["[scrubbed"])


def archived(content: bytes) -> str:
    """All files of an archive."""
    return b"\n".join(archives.members(content).values()).decode(errors="replace")


def addresses(values: dict[str, str]) -> list[str]:
    """The pages whose addresses these values fill."""
    found = [one.address for one in site._pages() if "{" in one.address]
    filled = [one.format_map(Filling(values)) for one in found]
    return sorted({one for one in filled if "{" not in one and "download" not in one})


class Filling(dict[str, str]):
    """Values for the places of an address. A place without one stays."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"
