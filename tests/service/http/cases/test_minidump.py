"""Crashes with a minidump over HTTP: their cases, what is counted and what is refused (G-142)."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any
from uuid import UUID, uuid4

import httpx2
import msgspec
import pytest

from tests.service.http.body.test_unpacking import PACKERS
from tests.service.http.cases.test_kinds import Product
from tests.service.http.cases.test_sentry import padding
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.minidumps import APP, FORM, LINUX, Loaded, form, minidump

pytestmark = pytest.mark.shares_server

TITLE = "EXCEPTION_ACCESS_VIOLATION in app.exe+0x1234"


class Program(Product):
    """A project whose native program uploads its crashes."""

    def __init__(self, world: World, owner: Any, made: dict[str, Any]) -> None:
        super().__init__(world, owner, made)
        self.alias, self.key = made["alias"], made["sdks_public"]["posthog_key"]
        self.server_key = self.sentry_dsn.username

    async def upload(self, body: Any, *, media: str = FORM, key: str | None = None, **headers: str) -> httpx2.Response:
        """Upload as Crashpad does, by a key in the address."""
        path = f"/api/{self.alias}/minidump/?sentry_key={key or self.key}"
        return await self.world.call("POST", path, content=body, headers={"content-type": media, **headers})

    async def cases(self) -> dict[str, int]:
        """The titles of its cases with their errors."""
        listed = ok(await self.owner.get(f"/v1/projects/{self.id}/cases"))["cases"]
        return {case["title"]: case["event_count"] for case in listed}

    async def shown(self) -> dict[str, Any]:
        """Its only error, as its owner reads it."""
        [case] = ok(await self.owner.get(f"/v1/projects/{self.id}/cases"))["cases"]
        [listed] = ok(await self.owner.get(f"/v1/cases/{case['id']}/events"))["events"]
        return ok(await self.owner.get(f"/v1/cases/{case['id']}/events/{listed['id']}"))


@pytest.fixture
async def program(world: World) -> Program:
    owner = await world.sign_in()
    return Program(world, owner, await owner.create_project())


def id_of(answer: httpx2.Response) -> str:
    """The id of the event, which a client reads as plain text."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    return UUID(answer.text).hex


async def test_a_crash_is_an_error_with_the_facts_of_its_dump(program: Program) -> None:
    event_id = uuid4().hex
    event = {
        "event_id": event_id,
        "release": "shop@1.2.3",
        "environment": "beta",
        "user": {"id": "u1"},
        "breadcrumbs": [{"message": "opened the shop"}],
    }
    body = form(minidump(), {"sentry": json.dumps(event), "channel": "stable"}, {"log.txt": b"a line"})
    assert id_of(await program.upload(body)) == event_id
    assert await program.cases() == {TITLE: 1}
    shown = await program.shown()
    assert (shown["level"], shown["release"], shown["environment"]) == ("fatal", "shop@1.2.3", "beta")
    assert (shown["user"]["id"], shown["dsn"], shown["platform"]) == ("u1", "public", "native")
    assert shown["contexts"]["os"]["name"] == "Windows"
    assert shown["contexts"]["minidump"]["module"] == APP.path
    assert shown["extra"]["channel"] == "stable"
    [frame] = shown["exception"]["frames"]
    assert (frame["package"], frame["instruction_addr"]) == (APP.path, "0x140001234")
    assert await program.not_kept(1) == {("sentry", "attachment", "not_kept"): 1}


async def test_crashes_at_one_place_are_one_case(program: Program) -> None:
    """Wherever the module was loaded; at another place, or in another module, it is another."""
    moved = APP._replace(base=0x7FF600000000)
    for dump in (
        minidump(),
        minidump(pointer=moved.base + 0x1234, modules=[moved], address=5),
        minidump(pointer=APP.base + 0x1235),
        minidump(platform=LINUX, code=11, pointer=0x400008, modules=[Loaded("/opt/shop/app", 0x400000)]),
        minidump(code=0x80000003),
    ):
        id_of(await program.upload(form(dump), key=program.server_key))
    assert await program.cases() == {
        TITLE: 3,
        "EXCEPTION_ACCESS_VIOLATION in app.exe+0x1235": 1,
        "SIGSEGV in app+0x8": 1,
    }


@pytest.mark.parametrize("dump", [b"MDMP\x93\xa7\0\0", b"no dump at all", minidump()[:32], b"MDMP" + b"\xff" * 5000])
async def test_an_unreadable_dump_is_a_case_too(program: Program, dump: bytes) -> None:
    id_of(await program.upload(form(dump, {"sentry": '{"release":"1.0"}'})))
    assert await program.cases() == {"Minidump, unreadable": 1}
    assert (await program.shown())["release"] == "1.0"


async def test_a_dump_may_come_without_a_form(program: Program) -> None:
    for media in ("application/octet-stream", "application/x-dmp"):
        id_of(await program.upload(minidump(), media=media))
    assert await program.cases() == {TITLE: 2}


async def test_annotations_as_message_pack_and_as_members(program: Program) -> None:
    event = msgspec.msgpack.encode({"event_id": uuid4().hex, "release": "shop@2"})
    id_of(await program.upload(form(minidump(), files={"__sentry-event": event, "__sentry-breadcrumb1": b"\x80"})))
    id_of(await program.upload(form(minidump(), {"sentry[release]": "shop@3", "sentry[tags][gpu]": "x"})))
    rows = await program.world.sql(
        "select release, tags from log_events where project_id = %s order by release", program.id
    )
    assert [tuple(row) for row in rows] == [("shop@2", {}), ("shop@3", {"gpu": "x"})]


async def test_an_upload_that_comes_again_is_stored_once(program: Program) -> None:
    body = form(minidump(), {"sentry": json.dumps({"event_id": uuid4().hex})})
    assert len({id_of(await program.upload(body)) for _ in range(3)}) == 1
    assert await program.cases() == {TITLE: 1}


@pytest.mark.parametrize("packed", ["gzip", "quick brotli", "zstd", "none"])
async def test_a_large_dump_is_read_wherever_its_streams_are(program: Program, packed: str) -> None:
    """In pieces, in any coding, in chunks; memory of the program stands between header and streams."""
    dump = bytearray(minidump())
    streams, away = bytes(dump[32:]), padding(6_000_000)
    shift = len(away)
    moved = bytearray(minidump() + away)
    moved[12:16] = struct.pack("<I", len(dump) + shift)  # The directory is at the end, its streams where they were.
    moved += streams[:36]
    coding, pack = PACKERS[packed]
    sent = pack(form(bytes(moved), {"sentry": "{}"}))

    async def chunks() -> Any:
        for at in range(0, len(sent), 300_000):
            yield sent[at : at + 300_000]
            await asyncio.sleep(0)

    id_of(await program.upload(chunks(), **{"content-encoding": coding}))
    assert await program.cases() == {TITLE: 1}


async def send(program: Program, event: Any, *dumps: bytes, place: str = "behind") -> None:
    """Send an envelope as the SDK for native programs does."""
    told = {"type": "attachment", "attachment_type": "event.minidump", "filename": "1.dmp"}
    items = [(told, dump) for dump in dumps]
    beside = ({"type": "event"}, json.dumps(event).encode())
    ok(await program.sentry(*([*items, beside] if place == "before" else [beside, *items])))


@pytest.mark.parametrize("place", ["before", "behind"])
async def test_a_dump_beside_an_event_gives_it_its_facts(program: Program, place: str) -> None:
    """Small or large, before or behind: the case is that of the same crash by the other door."""
    id_of(await program.upload(form(minidump())))
    await send(program, {"event_id": uuid4().hex, "release": "shop@1"}, minidump(), place=place)
    await send(program, {"event_id": uuid4().hex}, minidump() + padding(3_000_000), place=place)
    assert await program.cases() == {TITLE: 3}


async def test_an_exception_of_an_event_counts_more_than_its_dump(program: Program) -> None:
    """The facts of the dump stand beside it, those of a second one are counted."""
    await send(program, {"exception": {"values": [{"type": "Lost", "value": "late"}]}}, minidump(), b"second")
    assert await program.cases() == {"Lost: late": 1}
    assert (await program.shown())["contexts"]["minidump"]["module"] == APP.path
    assert await program.not_kept(1) == {("sentry", "minidump", "not_kept"): 1}


async def test_an_unreadable_dump_beside_an_event_costs_nothing_of_it(program: Program) -> None:
    await send(program, {"message": "the game froze", "level": "error"}, b"MDMP\0")
    [title] = await program.cases()
    assert title == "the game froze"


async def test_a_dump_without_an_event_is_counted_by_name(program: Program) -> None:
    told = {"type": "attachment", "attachment_type": "event.minidump"}
    ok(await program.sentry((told, minidump())))
    assert await program.cases() == {}
    assert await program.not_kept(1) == {("sentry", "minidump", "not_kept"): 1}


async def test_who_is_refused(world: World, program: Program) -> None:
    """A wrong key, none, another project's: nothing is stored, and nothing is told apart."""
    other = Program(world, program.owner, await program.owner.create_project("other"))
    body = form(minidump())
    head = {"content-type": FORM}
    for answer in (
        await program.upload(body, key="service_dsn_pub_nobody"),
        await program.upload(body, key=other.key),
        await program.upload(body, key=other.server_key),
        await world.call("POST", f"/api/{program.alias}/minidump/", content=body, headers=head),
        await world.call("POST", f"/api/{program.alias}/minidump/", content=body + padding(3_000_000), headers=head),
    ):
        refused(answer, 401, "unauthenticated")
        assert answer.headers["x-sentry-error"]
    refused(
        await program.owner.call("POST", f"/api/{program.alias}/minidump/", content=body, headers=head),
        403,
        "principal_not_allowed",
    )
    assert await program.cases() == await other.cases() == {}


BROKEN = [
    ("another type", form(minidump()), "application/json", "", 415),
    ("no type", form(minidump()), "", "", 415),
    ("no boundary", form(minidump()), "multipart/form-data", "", 400),
    ("a boundary without end", form(minidump()), 'multipart/form-data; boundary="a', "", 400),
    ("another boundary", form(minidump()), "multipart/form-data; boundary=x", "", 400),
    ("empty", b"", FORM, "", 400),
    ("empty without a form", b"", "application/x-dmp", "", 400),
    ("no dump", form(None, {"sentry": "{}"}), FORM, "", 400),
    ("an empty dump", form(b""), FORM, "", 400),
    ("cut short", form(minidump())[:-9], FORM, "", 400),
    ("a part without headers' end", form(None)[:14] + b"\r\nX: " + b"y" * 5000, FORM, "", 400),
    ("parts without names", form(None).replace(b"--\r\n", b"\r\n\r\nx\r\n------crashpad--\r\n"), FORM, "", 400),
    ("10,000 parts", form(minidump(), {f"f{number}": "x" for number in range(10_000)}), FORM, "", 413),
    ("a bomb", PACKERS["gzip"][1](form(b"\0" * 50_000_000)), FORM, "gzip", 413),
    ("a bomb of brotli", PACKERS["quick brotli"][1](form(b"\0" * 50_000_000)), FORM, "br", 413),
    ("not what it says", form(minidump()), FORM, "gzip", 400),
    ("another coding", form(minidump()), FORM, "compress", 415),
]


@pytest.mark.parametrize(
    ("body", "media", "coding", "status"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
async def test_what_is_refused(program: Program, body: bytes, media: str, coding: str, status: int) -> None:
    """In the words of Sentry, with a status that no client repeats; nothing is stored."""
    answer = await program.upload(body, media=media, **({"content-encoding": coding} if coding else {}))
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["retryable"] is False
    assert answer.headers["x-sentry-error"]
    assert "retry-after" not in answer.headers
    assert await program.world.telemetry(program.id) == 0


async def test_an_upload_that_is_too_large_is_refused_by_its_head(program: Program) -> None:
    """Before any of its 20 MiB and a byte is sent."""
    url = httpx2.URL(program.world.server.base_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST /api/{program.alias}/minidump/?sentry_key={program.key} HTTP/1.1\r\nHost: x\r\n"
    writer.write(f"{head}Content-Type: {FORM}\r\nContent-Length: {20 * 1024 * 1024 + 1}\r\n\r\n".encode())
    async with asyncio.timeout(30):
        answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"x-sentry-error: " in answer.lower()


@pytest.mark.parametrize(
    "fields",
    [
        {"sentry": "{nope"},
        {"sentry": "[1]"},
        {"sentry": "[" * 5000},
        {"sentry": '{"extra":[' + "[]," * 200_000 + "0]}"},
        {"sentry": '{"a":"' + "x" * (1 << 20) + '"}'},
        {"sentry": b"\xff\xfe"},
        {"sentry": '{"tags":{"a":"b\\u0000\\ud83c"},"extra":{"n":12345678901234567890}}'},
        {"a\0b": b"c\0d\xff", "sentry__9": "tail", "x" * 600: "y" * 9000},
        {f"f{number}": "z" * 8000 for number in range(150)},
    ],
    ids=["no JSON", "no object", "deep", "many values", "too large", "no UTF-8", "odd", "names", "many fields"],
)
async def test_annotations_cost_nobody_the_crash(program: Program, fields: dict[str, Any]) -> None:
    id_of(await program.upload(form(minidump(), fields)))
    assert await program.cases() == {TITLE: 1}
