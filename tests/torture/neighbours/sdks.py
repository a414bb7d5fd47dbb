"""Shapes of P25 with an SDK as the attacker: the worst that the public DSN of one project may send in their protocols.

Bodies are made once and sent again and again: none of them says who an event is, so that each is stored as a new one.
"""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Callable

from scripts.load.loadgen import Request
from service.auth.secrets import alias_of
from service.packing import zstd
from tests.support.protobuf import field
from tests.torture.neighbours.attacker import Attacker

PACKED_MOST = 1 << 20
UNPACKED_MOST = 4 << 20
MOST_ITEMS = 1000
MOST_VALUES = 5000
MOST_EXPORTED = 10_000
FEW_EXPORTED = 512
MOSTLY = 8  # one in so many requests is of the worst kind: it may be one of few that are let in
CLIENTS = 8
MOST_UPLOADS = 64
BATCHED = 4  # one of so many uploads is a batch
MOST_UPLOADED = 20_000_000
EVENT_UPLOADED = 900_000
UPLOAD_SECONDS = 60.0  # for which an SDK waits that sends so much
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda raw: gzip.compress(raw, 6),
    "zstd": lambda raw: zstd.compress(raw, 3),
}


def _errors(text: int) -> list[object]:
    """Exceptions with as many values as a record may hold, each a text of so many characters."""
    frame = {f"{name}": "x" * text for name in ("filename", "function", "abs_path", "module", "context_line")}
    frames = [frame] * (MOST_VALUES // 7)
    return [{"type": "AttackError", "value": "y" * text, "stacktrace": {"frames": frames}}]


def envelopes_of_most() -> list[tuple[str, bytes]]:
    """Envelopes, packed: one event as large as it may be, one with as many values, and as many items as are taken."""
    large = json.dumps({"exception": {"values": _errors(1000)}, "level": "error"}).encode()
    wide = json.dumps({"extra": {f"{n:04x}": n for n in range(MOST_VALUES - 10)}, "level": "error"}).encode()
    found = []
    for event, others in ((large, 1), (wide, MOST_ITEMS - 1)):
        rest = b'\n{"type":"transaction"}\n{}' * others
        raw = b'{}\n{"type":"event","length":%d}\n%b%b' % (len(event), event, rest)
        assert len(raw) <= UNPACKED_MOST
        found += [(coding, pack(raw)) for coding, pack in PACKERS.items()]
    assert all(len(body) <= PACKED_MOST for _, body in found)
    return found


async def envelopes(attacker: Attacker) -> None:
    """Sentry's envelopes, packed: the largest event, the most values, the most items."""
    path = f"/api/{alias_of(attacker.holdings.shop)}/envelope/"
    bodies = envelopes_of_most()

    def make(number: int) -> Request:
        coding, body = bodies[number % len(bodies)]
        return attacker.post(path, body, attacker.holdings.dsn, content_encoding=coding)

    await attacker.repeat(make, CLIENTS)


def captures_of_most(key: str) -> list[tuple[str, bytes]]:
    """Batches of PostHog, packed: the most events of the most properties, and the most exceptions."""
    room = UNPACKED_MOST // MOST_ITEMS - 200
    wide = {f"{n:03x}": n for n in range(room // 11)}
    event = {"event": "attack", "distinct_id": "u", "properties": wide}
    frames = [{"filename": "a.py", "function": "f", "in_app": True}] * (room // 64)
    listed = [{"type": "AttackError", "value": "v", "stacktrace": {"frames": frames}}]
    error = {"event": "$exception", "distinct_id": "u", "properties": {"$exception_list": listed}}
    found = []
    for sent in (event, error):
        raw = json.dumps({"api_key": key, "batch": [sent] * MOST_ITEMS}, separators=(",", ":")).encode()
        assert len(raw) <= UNPACKED_MOST, len(raw)
        found += [(coding, pack(raw)) for coding, pack in PACKERS.items()]
    return found


async def captures(attacker: Attacker) -> None:
    """PostHog's batches, packed: a thousand events with as many properties as fit in; and between them one alone."""
    bodies = captures_of_most(attacker.holdings.dsn)
    wide = {"event": "attack", "distinct_id": "u", "properties": {f"{n:03x}": n for n in range(MOST_VALUES - 10)}}
    alone = "gzip", gzip.compress(json.dumps({"api_key": attacker.holdings.dsn, "batch": [wide]}).encode())

    def make(number: int) -> Request:
        coding, body = alone if number % MOSTLY else bodies[number // MOSTLY % len(bodies)]
        return attacker.post("/batch/", body, attacker.holdings.dsn, content_encoding=coding)

    await attacker.repeat(make, CLIENTS)


def _time(number: int) -> bytes:
    return b"\x09" + number.to_bytes(8, "little")


def export_of(records: list[bytes]) -> bytes:
    """An export of records of one resource, in protobuf."""
    return field(1, field(2, b"".join(field(2, record) for record in records)))


def many_records(number_of: int = MOST_EXPORTED) -> bytes:
    """An export of errors, by default of as many as are taken, in which case it has four megabytes."""
    text = b"x" * (UNPACKED_MOST // MOST_EXPORTED - 60)
    body = [field(5, field(1, text + b"%06d" % number)) for number in range(number_of)]
    return export_of([_time(number + 1) + b"\x10\x11" + told for number, told in enumerate(body)])


def large_records() -> bytes:
    """An export of as few records as fit in, each with as many attributes as fit into it."""
    attributes = b"".join(field(6, field(1, b"%04x" % number) + field(2, b"")) for number in range(0x5000))
    return export_of([_time(number + 1) + attributes for number in range(UNPACKED_MOST // (len(attributes) + 20))])


async def exports(attacker: Attacker) -> None:
    """OpenTelemetry's exports: ten thousand records, or few with the most attributes; between them usual ones.

    Each is another export than all before, by a resource that says nothing else.
    """
    path = "/v1/logs"
    bodies = [many_records(), large_records(), many_records(FEW_EXPORTED)]
    packed = [gzip.compress(body, 6) for body in bodies]

    def make(number: int) -> Request:
        name = field(1, b"attack") + field(2, field(1, secrets.token_hex(8).encode()))
        told = field(1, field(1, field(1, name)))
        which = 0 if number % (2 * MOSTLY) == 0 else 1 if number % MOSTLY == 0 else 2
        body = gzip.compress(told, 1) + packed[which] if number % 2 else told + bodies[which]
        coding = {"content_encoding": "gzip"} if number % 2 else {}
        headers = {"content_type": "application/x-protobuf", **coding}
        return attacker.post(path, body, attacker.holdings.dsn, **headers)

    await attacker.repeat(make, CLIENTS)


async def bombs(attacker: Attacker) -> None:
    """Bodies that unpack to a thousand times their size, in every protocol and coding: given up at the limit."""
    raw = b" " * (64 << 20)
    packed = {"gzip": gzip.compress(raw, 9), "zstd": zstd.compress(raw, 3)}
    del raw
    alias = alias_of(attacker.holdings.shop)
    targets = (f"/api/{alias}/envelope/", f"/api/{alias}/store/", "/batch/", "/v1/logs")

    def make(number: int) -> Request:
        coding = "gzip" if number % 2 else "zstd"
        path = targets[number // 2 % len(targets)]
        kind = {"content_type": "application/x-protobuf"} if path == "/v1/logs" else {}
        return attacker.post(path, packed[coding], attacker.holdings.dsn, content_encoding=coding, **kind)

    await attacker.repeat(make, CLIENTS)


def uploads_of_most(alias: str, key: str, size: int) -> list[tuple[str, bytes]]:
    """An envelope with an error behind its attachment, and a batch whose sender stands at its end: of so many bytes."""
    event = json.dumps({"exception": {"values": [{"type": "AttackError", "value": "y"}]}, "level": "error"})
    kind = '{"type":"attachment","attachment_type":"event.attachment","filename":"core.dmp"}'
    rest = f'\n{{"type":"event"}}\n{event}'
    envelope = f"{{}}\n{kind}\n{'x' * (size - len(kind) - len(rest) - 4)}{rest}".encode()
    text = "x" * min(EVENT_UPLOADED, size // 2)
    sent = {"event": "attack", "distinct_id": "u", "properties": {"text": text}}
    batch = json.dumps({"batch": [sent] * (size // (len(text) + 100)), "api_key": key}).encode()
    assert max(len(envelope), len(batch)) <= MOST_UPLOADED
    return [(f"/api/{alias}/envelope/", envelope), ("/batch/", batch)]


async def uploads(attacker: Attacker) -> None:
    """Sixty-four uncompressed bodies of twenty megabytes at once, of both protocols (G-206)."""
    # All of a batch is stored, and of an envelope the error behind the attachment.
    size = round(MOST_UPLOADED * attacker.holdings.scale)
    made = uploads_of_most(alias_of(attacker.holdings.shop), attacker.holdings.dsn, size)

    def make(number: int) -> Request:
        path, body = made[number % BATCHED == 0]
        return attacker.post(path, body, attacker.holdings.dsn)

    await attacker.repeat(make, attacker.many(MOST_UPLOADS), patience=UPLOAD_SECONDS)


SHAPES = (envelopes, captures, exports, bombs, uploads)
