"""What is read of a minidump, whatever stands in it, and of the form around it (G-142)."""

from __future__ import annotations

import json
import random
import struct
import time
from typing import Any

import msgspec
import pytest

from service.ingest.foreign.crash import (
    MAX_MODULES,
    CrashForm,
    UnreadableDump,
    event_text,
    read_dump,
    to_payload,
    with_dump,
)
from service.ingest.foreign.envelope import MAX_PARTS, FormPart, FormReader, TooManyParts
from service.multipart import MalformedForm, boundary_of
from tests.support.minidumps import (
    ACCESS_VIOLATION,
    APP,
    ARM64,
    FORM,
    LINUX,
    MACOS,
    NTDLL,
    X86,
    Loaded,
    form,
    minidump,
)

GAME = Loaded("/opt/game/bin/game", 0x400000, 0x8000, build_id=bytes(range(20)))
LIBC = Loaded("/usr/lib/x86_64-linux-gnu/libc.so.6", 0x7F0000000000, 0x200000)

MAC_APP = Loaded("/Applications/A.app/Contents/MacOS/A", 1 << 32)


def title(dump: bytes) -> tuple[str, list[str]]:
    """The text of the exception of a dump, and the facts of its case."""
    payload = with_dump({}, dump)
    [error] = payload["exception"]["values"]
    return error["value"], payload["fingerprint"]


@pytest.mark.parametrize(
    ("facts", "said", "known_by"),
    [
        ({}, "EXCEPTION_ACCESS_VIOLATION in app.exe+0x1234", ["app.exe", "+0x1234"]),
        ({"aligned": True}, "EXCEPTION_ACCESS_VIOLATION in app.exe+0x1234", ["app.exe", "+0x1234"]),
        (
            {"processor": X86, "pointer": 0x400010, "modules": [Loaded("D:\\a.dll", 0x400000)], "code": 0xC00000FD},
            "EXCEPTION_STACK_OVERFLOW in a.dll+0x10",
            ["a.dll", "+0x10"],
        ),
        (
            {"pointer": None, "address": APP.base + 8, "code": 0x80000003},
            "EXCEPTION_BREAKPOINT in app.exe+0x8",
            ["app.exe", "+0x8"],
        ),
        (
            {"platform": LINUX, "code": 11, "pointer": GAME.base + 0x42, "address": 0, "modules": [GAME, LIBC]},
            "SIGSEGV in game+0x42",
            ["game", "+0x42"],
        ),
        (
            {"platform": LINUX, "code": 6, "pointer": LIBC.base + 1, "modules": [GAME, LIBC]},
            "SIGABRT in libc.so.6+0x1",
            ["libc.so.6", "+0x1"],
        ),
        (
            {
                "platform": MACOS,
                "processor": ARM64,
                "code": 1,
                "pointer": 0x100000007,
                "modules": [Loaded("/A", 1 << 32)],
            },
            "EXC_BAD_ACCESS in A+0x7",
            ["A", "+0x7"],
        ),
        (
            {"platform": LINUX, "code": 11, "pointer": 0, "modules": [GAME]},
            "SIGSEGV in game, outside of any module",
            ["SIGSEGV", "game"],
        ),
        ({"code": 0x1234, "modules": []}, "exception 0x1234, no module is known", ["exception 0x1234", ""]),
        ({"code": None}, "Minidump of app.exe without an exception", ["no exception", "app.exe"]),
    ],
)
def test_a_crash_is_named_and_known_by_its_place(facts: dict[str, Any], said: str, known_by: list[str]) -> None:
    assert title(minidump(**facts)) == (said, ["minidump", *known_by])


def test_system_processor_modules_and_time_are_read() -> None:
    payload = with_dump({}, minidump(taken_at=1795860000, said="Service Pack 1"))
    contexts = payload["contexts"]
    assert contexts["os"] == {"name": "Windows", "version": "10.0.19045 Service Pack 1"}
    assert contexts["device"] == {"arch": "x86_64"}
    debug_id = "dddddddd-dddd-dddd-dddd-dddddddddddd-1"
    assert contexts["modules"] == {"app.exe": f"1.2.3.4 {debug_id}", "ntdll.dll": ""}
    told = contexts["minidump"]
    assert (told["code"], told["thread"], told["instruction_addr"]) == ("0xc0000005", 77, "0x140001234")
    assert (told["module"], told["debug_id"], told["version"]) == (APP.path, debug_id, "1.2.3.4")
    assert payload["timestamp"] == 1795860000
    [error] = payload["exception"]["values"]
    assert error["stacktrace"]["frames"] == [{"instruction_addr": "0x140001234", "in_app": True, "package": APP.path}]
    assert (payload["level"], payload["platform"]) == ("fatal", "native")


def test_a_build_id_is_a_debug_id() -> None:
    dump = read_dump(minidump(platform=LINUX, code=11, pointer=GAME.base, modules=[GAME]), 10)
    assert [module.debug_id for module in dump.modules] == ["03020100-0504-0706-0809-0a0b0c0d0e0f"]


def test_a_library_of_the_system_is_not_the_products_own() -> None:
    [error] = with_dump({}, minidump(pointer=NTDLL.base + 5))["exception"]["values"]
    assert error["stacktrace"]["frames"][0]["in_app"] is False


def test_an_exception_of_the_event_stays() -> None:
    event = {
        "exception": {"values": [{"type": "E", "value": "v"}]},
        "contexts": {"os": {"name": "mine"}},
        "level": "info",
    }
    payload = with_dump(event, minidump())
    assert payload["exception"] == event["exception"]
    assert "fingerprint" not in payload
    assert payload["contexts"]["os"] == {"name": "mine"}
    assert payload["contexts"]["minidump"]["exception"] == "EXCEPTION_ACCESS_VIOLATION"
    assert payload["level"] == "info"


def patched(at: int, form: str, *values: int) -> bytes:
    """A dump with other values at a place."""
    raw = bytearray(minidump())
    struct.pack_into(form, raw, at, *values)
    return bytes(raw)


MODULES_AT = 32 + 2 * 12  # the third entry of the directory
FAR = 0xFFFFFFFF
UNREADABLE = {
    "nothing": b"",
    "a few bytes": b"MDMP\x93\xa7\0\0",
    "no dump": b"PK\3\4" + b"\0" * 1000,
    "its header alone": minidump()[:32],
    "no streams": patched(8, "<I", 0),
    "a directory far away": patched(12, "<I", FAR),
    "a directory that is the header": patched(12, "<I", 0),
    "all streams far away": patched(32, "<IIIIIIIII", 7, FAR, FAR, 6, FAR, FAR - 1, 4, FAR, FAR - 2),
    "zeros": b"MDMP" + b"\0" * 100_000,
}


@pytest.mark.parametrize("dump", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_dump_is_a_case_of_its_own(dump: bytes) -> None:
    with pytest.raises(UnreadableDump):
        read_dump(dump, 10)
    payload = with_dump({"release": "r"}, dump)
    assert payload["exception"]["values"][0]["value"] == "Minidump, unreadable"
    assert payload["fingerprint"] == ["minidump", "unreadable"]
    assert payload["contexts"]["minidump"]["unreadable"]
    assert payload["release"] == "r"


@pytest.mark.parametrize(
    ("dump", "said"),
    [
        (patched(MODULES_AT + 8, "<I", FAR), "EXCEPTION_ACCESS_VIOLATION, no module is known"),
        (patched(MODULES_AT + 4, "<I", FAR), "EXCEPTION_ACCESS_VIOLATION in app.exe+0x1234"),
        (patched(8, "<I", FAR), "EXCEPTION_ACCESS_VIOLATION in app.exe+0x1234"),
        (patched(8, "<I", 1), "Minidump without an exception"),
        (patched(32 + 12 + 8, "<I", FAR), "Minidump of app.exe without an exception"),
        (minidump()[:400], "EXCEPTION_ACCESS_VIOLATION, no module is known"),
    ],
    ids=["modules far away", "4 GiB of modules", "4 GiB of streams", "one stream", "no exception", "cut short"],
)
def test_a_fault_of_a_stream_costs_no_other(dump: bytes, said: str) -> None:
    assert title(dump)[0] == said


def test_a_list_that_points_at_itself_ends() -> None:
    """Streams and names at one place, and more modules than a program has."""
    raw = bytearray(minidump())
    [_, _, place] = struct.unpack_from("<III", raw, MODULES_AT)
    struct.pack_into("<I", raw, place, FAR)
    struct.pack_into("<I", raw, place + 4 + 20, place)  # A name that is the list.
    padded = bytes(raw) + b"\1" * 108 * (MAX_MODULES + 10)
    begun = time.process_time()
    dump = read_dump(padded, 60)
    assert (len(dump.modules), dump.total) == (60, FAR)
    assert time.process_time() - begun < 1


def test_dumps_of_noise_are_read_or_unreadable() -> None:
    """Each byte of a dump may be anything: the text names a fact or the fault, and costs little."""
    dice = random.Random(11)
    whole = minidump(said="x")
    begun = time.process_time()
    for _ in range(3000):
        raw = bytearray(whole[: dice.randrange(len(whole) + 1)])
        for _ in range(dice.randrange(12)):
            if raw:
                raw[dice.randrange(len(raw))] = dice.choice((0, 1, 0x7F, 0xFF, dice.randrange(256)))
        payload = with_dump({}, bytes(raw))
        assert payload["exception"]["values"][0]["value"]
        assert len(msgspec.json.encode(payload)) < 64 * 1024
    assert time.process_time() - begun < 20


def crash(fields: dict[str, str], packed: bytes | None = None) -> dict[str, Any]:
    told = CrashForm(fields, packed, minidump())
    text = event_text(told)
    event = {} if text is None else msgspec.json.decode(text)
    return to_payload(event, told, unread=False)


@pytest.mark.parametrize(
    "told",
    [
        {"sentry": '{"release":"shop@1","tags":{"gpu":"a"},"user":{"id":"u1"}}'},
        {"sentry__1": '{"release":"sho', "sentry__2": 'p@1","tags":{"gpu":"a"},', "sentry__3": '"user":{"id":"u1"}}'},
        {"sentry[release]": "shop@1", "sentry[tags][gpu]": "a", "sentry[user][id]": "u1"},
        {"sentry___release": "shop@1", "sentry___tags___gpu": "a", "sentry___user___id": "u1"},
    ],
    ids=["whole", "in pieces", "brackets", "underscores"],
)
def test_annotations_are_an_event_in_each_form(told: dict[str, str]) -> None:
    payload = crash({**told, "plugin": "no", "guid": "g"})
    assert (payload["release"], payload["tags"], payload["user"]) == ("shop@1", {"gpu": "a"}, {"id": "u1"})
    assert payload["extra"] == {"plugin": "no", "guid": "g"}


def test_annotations_may_be_message_pack() -> None:
    assert crash({}, msgspec.msgpack.encode({"release": "shop@2"}))["release"] == "shop@2"
    assert event_text(CrashForm({}, b"\xc1", b"")) is None


def test_product_and_version_are_the_release_of_an_event_without_one() -> None:
    assert crash({"prod": "Shop", "ver": "3.1"})["release"] == "Shop@3.1"
    assert crash({"prod": "Shop", "ver": "3.1", "sentry": '{"release":"x"}'})["release"] == "x"


@pytest.mark.parametrize("name", ["sentry[", "sentry___", "sentry[a][b][c][d][e][f][g]", "sentry[tags]", "sentry[]"])
def test_any_name_of_a_field_is_taken(name: str) -> None:
    payload = crash({name: "text", "sentry": '{"tags":"no object"}'})
    assert json.dumps(payload)


def parts_of(body: bytes, step: int, room: int = 1 << 20) -> list[FormPart]:
    boundary = boundary_of(FORM)
    assert boundary is not None
    reader = FormReader(boundary, lambda name, _: None if name is None else room)
    for at in range(0, len(body), step):
        reader.feed(body[at : at + step])
    reader.end()
    return reader.parts


@pytest.mark.parametrize("step", [1, 2, 7, 64, 100_000])
def test_a_form_is_read_in_pieces_of_any_size(step: int) -> None:
    tricky = b"\r\n--" + b"\r\n----crashpa" * 20 + b"\r\n"
    body = b"preamble\r\n" + form(tricky, {"a": "1", "b": ""}, {"log": b"\0\xff"}) + b"epilogue --" * 9
    found = [(part.name, part.is_file, part.whole) for part in parts_of(body, step)]
    assert found == [
        ("a", False, b"1"),
        ("b", False, b""),
        ("log", True, b"\0\xff"),
        ("upload_file_minidump", True, tricky),
    ]
    cut = parts_of(body, step, room=4)[-1]
    assert (cut.content, cut.size, cut.whole) == (tricky[:4], len(tricky), None)


def test_parts_without_a_name_are_passed_over() -> None:
    nameless = form(None).replace(b"--\r\n", b"\r\n\r\nbody\r\n", 1) + form(b"x")
    parts = parts_of(nameless, 9)
    assert [(part.name, part.content) for part in parts] == [(None, None), ("upload_file_minidump", b"x")]


@pytest.mark.parametrize(
    "body", [b"", b"text", form(b"x")[:-4], form(b"x")[:60], b"------crashpad\r\nX: " + b"a" * 3000]
)
def test_what_is_no_whole_form_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedForm):
        parts_of(body, 11)


def test_a_form_of_many_parts_is_given_up() -> None:
    assert len(parts_of(form(b"x", {f"f{number}": "" for number in range(MAX_PARTS - 1)}), 4096)) == MAX_PARTS
    with pytest.raises(TooManyParts):
        parts_of(form(b"x", {f"f{number}": "" for number in range(10_000)}), 4096)


def test_codes_are_those_of_the_system() -> None:
    """One number means another thing on each of them."""
    names = [title(minidump(platform=one, code=6, modules=[]))[0] for one in (2, LINUX, MACOS)]
    assert [name.partition(",")[0] for name in names] == ["exception 0x6", "SIGABRT", "EXC_BREAKPOINT"]
    assert title(minidump(code=ACCESS_VIOLATION, modules=[]))[0].startswith("EXCEPTION_ACCESS_VIOLATION")
