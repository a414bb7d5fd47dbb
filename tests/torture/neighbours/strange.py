"""Shapes of P25 in formats of others: files for parsers of their own, archives, headers, and look-alikes of secrets.

Each sends little and hopes that it becomes much: a stack that overflows, an archive that unpacks, a name that is slow
to match, a text that is stored once for each record.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import secrets
import struct
import uuid
import zlib
from collections.abc import Generator, Iterator
from http import HTTPStatus
from itertools import cycle
from typing import Any, NamedTuple

from scripts.load import automation_world
from scripts.load.loadgen import Client, Request, Response
from service.auth.secrets import alias_of
from tests.support.mappings import Segment, document
from tests.support.protobuf import field
from tests.torture.neighbours.attacker import Attacker

CLIENTS = 8
MANY_CLIENTS = 64
UNPACKED_MOST = 4 << 20
RECURSIVE = ("(", "!", "a=>", "[", "typeof ", "{", "a.b(", "function f(){")
NESTED = 20_000
CHUNK = 1 << 20
REPEATED = 120  # parts of a bundle, whose bytes are 128 MiB at most
FORM = "multipart/form-data; boundary=part"
CHUNKS = "/api/0/organizations/any/chunk-upload/"
ASSEMBLE = "/api/0/organizations/any/artifactbundle/assemble/"
MANIFEST = (
    "eNoL8GZm0WNgYOABYkWGZfVHZgkyM4CAAy+QyE3My0xLLS7RyyrOz3OKyrA0dIxUC47cqpS6nzG+T4DhAAMDhwKDQYOvm9MC1ZVcDdNH5Uflh778"
    "nGMfjzN0Bc0AybOAVZxh1Vw2Uck50aWTX7zI1SJgwoXMlYYB3oxMesy4cw8MNDAyoOelAG9WNpAgIxBaA2kbsDYAcGQAjg=="
)
ONE_MAP = document([[Segment(0, 0, 0, 0)]], ["a.js"], sourcesContent=["a"])


def multiplied_map() -> bytes:
    """A map whose root is written before each of its many sources: a hundred kilobytes that say gigabytes."""
    root = "r" * 50_000 + "/"
    return json.dumps({"version": 3, "sourceRoot": root, "sources": ["a"] * 15_000, "mappings": "AAAA"}).encode()


def many_sources() -> bytes:
    """A map of a few megabytes that is nothing but names of sources."""
    listed = b'"",' * (3 << 20)
    return b'{"version":3,"mappings":"AAAA","sources":[' + listed + b'""]}'


def _resolving(attacker: Attacker, files: Iterator[tuple[bytes, bytes]]) -> Client:
    """Store a map and its minified file, report an error in it, and ask where it comes from; again and again."""
    maps = f"/v1/projects/{attacker.holdings.shop}/source-maps"
    for source_map, minified in files:
        debug_id = str(uuid.uuid4())
        for kind, content in (("source_map", source_map), ("minified_source", minified)):
            _, path, told, body = attacker.post(f"{maps}?kind={kind}&debug_id={debug_id}", content)
            yield "PUT", path, told | {"content-type": "application/octet-stream"}, body
        frames = [{"file": "https://shop.example/a.js", "line": 1, "column": 1, "debug_id": debug_id}]
        exception = {"type": f"Error{secrets.token_hex(4)}", "frames": frames}
        error = {"level": "error", "message": "It broke.", "extra": {"exception": exception}}
        status, _, answer = yield attacker.post("/v1/logs/", error, attacker.holdings.dsn)
        case_id = json.loads(answer).get("case_id") if status < 300 else None
        if case_id:
            yield attacker.post(f"/v1/cases/{case_id}/unmangle", {})


async def parsers(attacker: Attacker) -> None:
    """Minified files that overflow the stack of a parser that goes down into each bracket."""

    def files() -> Iterator[tuple[bytes, bytes]]:
        for text in cycle(RECURSIVE):
            yield ONE_MAP, f"{text * NESTED}//{secrets.token_hex(4)}".encode()

    await attacker.follow(lambda: _resolving(attacker, files()), CLIENTS)


async def sources(attacker: Attacker) -> None:
    """Maps that name more sources, or longer ones, than they have bytes."""

    def files() -> Iterator[tuple[bytes, bytes]]:
        for source_map in cycle((multiplied_map(), many_sources())):
            yield source_map, secrets.token_hex(4).encode()

    await attacker.follow(lambda: _resolving(attacker, files()), CLIENTS // 2)


class Sent(NamedTuple):
    """A bundle as it is sent: the SHA-1 of the whole, the names of its parts in order, and each different part once."""

    checksum: str
    names: list[str]
    parts: dict[str, bytes]


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _form(parts: dict[str, bytes]) -> bytes:
    heads = ((f'form-data; name="file_gzip"; filename="{name}"'.encode(), part) for name, part in parts.items())
    pieces = [b"--part\r\ncontent-disposition: %b\r\n\r\n%b\r\n" % (head, gzip.compress(part)) for head, part in heads]
    return b"".join([*pieces, b"--part--\r\n"])


def _bundles(attacker: Attacker, bundles: Iterator[Sent]) -> Client:
    """Send bundles as their program does: the parts, then what they are parts of."""
    for bundle in bundles:
        yield attacker.post(CHUNKS, _form(bundle.parts), content_type=FORM)
        wish = {"checksum": bundle.checksum, "chunks": bundle.names, "projects": [attacker.holdings.shop]}
        yield attacker.post(ASSEMBLE, wish)


def packed_manifest() -> bytes:
    """A bundle of a kilobyte whose manifest is a gigabyte: an archive whose one member is spaces, packed with bzip2."""
    return zlib.decompress(base64.b64decode(MANIFEST))


def directories() -> Iterator[Sent]:
    """Bundles of a few kilobytes as they are sent: one part that lists files, named again and again, and an end."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 0, 20, *[0] * 8, 18, *[0] * 6) + b"n" * 18
    part = entry * (CHUNK // len(entry))
    before = hashlib.sha1(part * REPEATED, usedforsecurity=False)
    while True:
        note = secrets.token_hex(8).encode()
        size = len(part) * REPEATED
        end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, size, 0, len(note)) + note
        whole = before.copy()
        whole.update(end)
        parts = {_sha1(part): part, _sha1(end): end}
        yield Sent(whole.hexdigest(), [_sha1(part)] * REPEATED + [_sha1(end)], parts)


async def archives(attacker: Attacker) -> None:
    """Bundles that unpack to a million times their size, or whose directory is all that is in them."""
    manifest = packed_manifest()

    def bundles() -> Iterator[Sent]:
        for directory in directories():
            yield directory
            again = secrets.token_bytes(8) + manifest  # What stands before an archive is no part of it.
            yield Sent(_sha1(again), [_sha1(again)], {_sha1(again): again})

    await attacker.follow(lambda: _bundles(attacker, bundles()), CLIENTS)


async def headers(attacker: Attacker) -> None:
    """Forms whose part has a header of half a megabyte of semicolons."""
    body = b'--part\r\ncontent-disposition: form-data; name="file"' + b";" * 600_000 + b"\r\n\r\nx\r\n--part--\r\n"
    await attacker.repeat(lambda _: attacker.post(CHUNKS, body, content_type=FORM), CLIENTS)


async def suffixes(attacker: Attacker) -> None:
    """Errors whose functions have names that a pattern could try in quadratically many ways."""
    name = "f" + " [as " * 200
    frames = [{"filename": "a.js", "function": name, "in_app": True}] * 50
    listed = [{"type": "AttackError", "value": "v", "stacktrace": {"frames": frames}}]
    error = {"event": "$exception", "distinct_id": "u", "properties": {"$exception_list": listed}}
    body = json.dumps({"api_key": attacker.holdings.dsn, "batch": [error]}).encode()
    await attacker.repeat(lambda _: attacker.post("/batch/", body, attacker.holdings.dsn), CLIENTS)


async def numbers(attacker: Attacker) -> None:
    """Records of 60 KB full of numbers of cards: each is looked at for what must be hidden."""
    text = " ".join("4111 1111 1111 1111" for _ in range(3000))
    error = {"level": "error", "message": "Order failed.", "extra": {"text": text}}
    body = json.dumps(error).encode()
    await attacker.repeat(lambda _: attacker.post("/v1/logs/", body, attacker.holdings.dsn), CLIENTS)


async def cut(attacker: Attacker) -> None:
    """Bodies that are many values, or deep ones, from strangers and for doors that have to cut them apart."""
    zeros = gzip.compress(b'{"api_key":"none","batch":[' + b"0," * (UNPACKED_MOST // 2 - 20) + b"0]}", 9)
    item = b'{"type":"event"}\n'
    brackets = gzip.compress(b"{}\n" + item + b"[" * (UNPACKED_MOST - 100), 9)
    listed = b"[" + b",".join([b'{"level": "error", "message": x}'] * 1000) + b"]"
    alias = f"/api/{alias_of(attacker.holdings.shop)}/envelope/"

    def make(number: int) -> Request:
        if number % 3 == 0:
            return attacker.post("/batch/", zeros, "none", content_encoding="gzip")
        if number % 3 == 1:
            return attacker.post(alias, brackets, attacker.holdings.dsn, content_encoding="gzip")
        return attacker.post("/v1/logs/", listed, attacker.holdings.dsn)

    await attacker.repeat(make, attacker.many(MANY_CLIENTS))


async def resources(attacker: Attacker) -> None:
    """Exports whose resource is large and said once, for ten thousand records that each could keep it."""
    value = field(1, b"y" * 40_000)
    told = field(1, field(1, field(1, b"k") + field(2, value)))

    def packed(number_of: int) -> bytes:
        records = [field(2, b"\x09" + (n + 1).to_bytes(8, "little") + b"\x10\x09") for n in range(number_of)]
        return gzip.compress(field(1, told + field(2, b"".join(records))), 6)

    most, few = packed(10_000), packed(64)
    sent = {"content_type": "application/x-protobuf", "content_encoding": "gzip"}

    def make(number: int) -> Request:
        return attacker.post("/v1/logs", few if number % 16 else most, attacker.holdings.dsn, **sent)

    await attacker.repeat(make, CLIENTS)


async def scrapes(attacker: Attacker) -> None:
    """Metrics, asked for by strangers as fast as they come."""
    await attacker.repeat(lambda _: ("GET", "/metrics", {}, b""), attacker.many(MANY_CLIENTS))


async def backtests(attacker: Attacker) -> None:
    """Back-tests of the longest time, one after the other in as many projects as there are places."""

    def client() -> Client:
        playbook = f"automation-playbooks/{automation_world.PLAYBOOK}"
        found = yield from _until_found(attacker.get(f"/v1/{playbook}"))
        wish = automation_world.wish_of(found["version"])
        render = attacker.post(f"/v1/projects/{attacker.holdings.shop}/{playbook}/render", wish)
        rendered = yield from _until_found(render)
        candidate = rendered["contract_input"] | {"days": 90}
        for project in cycle([attacker.holdings.shop, *attacker.holdings.long]):
            yield attacker.post(f"/v1/projects/{project}/automation-contract/backtest", candidate)

    await attacker.follow(client, CLIENTS)


def _until_found(request: Request) -> Generator[Request, Response, dict[str, Any]]:
    """Ask again while others have the turn; returns what was found."""
    while True:
        status, _, answer = yield request
        if status == HTTPStatus.OK:
            found: dict[str, Any] = json.loads(answer)
            return found


SHAPES = (parsers, sources, archives, headers, suffixes, numbers, cut, resources, scrapes, backtests)
