"""Shapes of P25 at the doors that show, tell and answer: pages, MCP, the public log, archives, names, and webhooks."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from urllib.parse import urlencode

from scripts.load.loadgen import Client, Request
from statemachines.onboarding import lifecycle
from tests.support.intruding import TOKEN
from tests.support.mcp import META, headers_of
from tests.torture.neighbours.attacker import PAUSE, Attacker, Place
from tests.torture.neighbours.readers import ask, sip, swallow
from tests.torture.neighbours.wire import Wire

CLIENTS = 8
FIRST = 24  # messages of MCP that come at once, the first of a process among them
MOST_WEBHOOKS = 20
ADDRESSES = 64
EVERY = 1.0  # seconds between two requests of one address
TEXT_LINES = 4000
WORDS = "case run project key deploy error event contract webhook report approval credential member log usage session"
HANGING = ".hangs.invalid"
"""The end of each name at which the resolver of the service hangs (see `storm`)."""
FORM = "application/x-www-form-urlencoded"


async def pages(attacker: Attacker) -> None:
    """The dearest pages of the console: four runs of brackets, two moments of a large plan, a long text in the editor.

    All in one session, eight at once.
    """
    holdings, root = attacker.holdings, "/console"
    editor = f"{root}/projects/{holdings.shop}/automation"
    streams = [f"{root}/streams/{lifecycle.stream(project).id}?from=1&to=2" for project in holdings.long]
    shown = cycle([f"{root}/cases/{holdings.case}", *streams])
    contract = json.dumps({"policy_version": 2, "automations": ["x" * 40] * TEXT_LINES}, indent=1)
    headers = {"cookie": holdings.cookie, "origin": f"http://{holdings.host}:{holdings.port}", "content-type": FORM}

    def client() -> Client:
        _, _, page = yield "GET", f"{editor}/edit", headers, b""
        token = TOKEN.search(page.decode())
        fields = {"_csrf": token[1] if token else "", "_path.project_id": holdings.shop, ":json": contract}
        body = urlencode(fields | {"_back": "", "_next": "", "_key": "", "_if_match": ""}).encode()
        while True:
            yield "GET", next(shown), headers, b""
            yield "GET", next(shown), headers, b""
            yield "POST", f"{editor}/check", headers, body

    await attacker.follow(client, CLIENTS)


def _message(attacker: Attacker, number: int, tool: str, **arguments: object) -> Request:
    """A use of a tool, by each key of the account in turn: each has a rate limit of its own."""
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": number + 1, "method": "tools/call", "params": params}
    keys = attacker.holdings.keys
    headers = headers_of("tools/call", params) | {"content-type": "application/json"}
    return attacker.post("/mcp", body, keys[number % len(keys)], **headers)


async def tools(attacker: Attacker) -> None:
    """Messages of MCP, as many as are let in: searches of many words, long descriptions, and reads.

    The service has just been started: the first ones come before any of its texts is made.
    """
    uses: Sequence[tuple[str, dict[str, object]]] = (
        ("find_operation", {"words": WORDS, "limit": 20}),
        ("describe", {"operation": "get_automation_contract"}),
        ("find_operation", {"words": "e a i o u s t r", "limit": 20}),
        ("read", {"operation": "get_openapi", "parameters": {"index": True}}),
    )

    def make(number: int) -> Request:
        tool, arguments = uses[number % len(uses)]
        return _message(attacker, number, tool, **arguments)

    await attacker.repeat(make, FIRST)


async def proofs(attacker: Attacker) -> None:
    """Sixty-four addresses of strangers at the log, each with a request a second: proofs, tiles and checkpoints."""
    wire = Wire(attacker.holdings.host, attacker.holdings.port)
    _, _, note = await wire.send(("GET", "/v1/log/checkpoint", {}, b""))
    size = int(note.split(b"\n")[1])

    def path() -> str:
        old, new = sorted((1 + secrets.randbelow(size), 1 + secrets.randbelow(size)))
        return secrets.choice(
            (
                f"/v1/log/proof/inclusion?position={old}&size={new}",
                f"/v1/log/proof/consistency?from={old}&to={new}",
                f"/v1/log/proof/consistency?from={old}",
                "/v1/log/tile/0/000",
                "/v1/log/checkpoint",
            )
        )

    async def stranger(number: int) -> None:
        await asyncio.sleep(EVERY * number / ADDRESSES)
        while time.monotonic() < attacker.until:
            began = time.monotonic()
            try:
                status, _, _ = await wire.send(("GET", path(), {"x-forwarded-for": f"192.0.2.{number + 1}"}, b""))
                attacker.counted[status] += 1
            except (OSError, TimeoutError, EOFError):
                attacker.tally.lost += 1
            await asyncio.sleep(max(0.0, began + EVERY - time.monotonic()))

    await asyncio.gather(*(stranger(number) for number in range(ADDRESSES)))
    await wire.close()


async def downloads(attacker: Attacker) -> None:
    """Archives of more accounts than there are places, read a byte a second; and one of large cases, read at once."""
    holdings = attacker.holdings

    async def read(key: str, project: str, *, quick: bool) -> None:
        headers = {"authorization": f"Bearer {key}", "connection": "close"}
        request: Request = "GET", f"/v1/projects/{project}/archive", headers, b""
        while time.monotonic() < attacker.until:
            try:
                await ask(attacker, request, swallow if quick else sip)
            except (OSError, EOFError):
                attacker.tally.lost += 1
            await asyncio.sleep(PAUSE)

    readers = [read(holdings.key, holdings.shop, quick=True)]
    readers += [read(account.key, account.project, quick=False) for account in holdings.accounts]
    try:
        async with asyncio.timeout(attacker.until - time.monotonic()):
            await asyncio.gather(*readers)
    except TimeoutError:
        return


async def _registered(attacker: Attacker, place: Place, urls: Sequence[str]) -> None:
    """Have a project call these addresses, and no others, of every event."""
    path = f"/v1/projects/{place.project}/webhooks"

    def client() -> Client:
        _, _, answer = yield attacker.get(path)
        for one in json.loads(answer)["webhooks"]:
            _, target, headers, body = attacker.get(f"{path}/{one['id']}")
            yield "DELETE", target, headers, body
        for url in urls:
            yield attacker.post(path, {"url": url, "events": ["*"]})

    await attacker.say(client())


def _deploy(attacker: Attacker, place: Place) -> Request:
    """An event that every webhook of a project is told of."""
    deploy = {"version": secrets.token_hex(8), "environment": "production"}
    return attacker.post("/v1/deploys/", deploy, place.dsn)


async def lookups(attacker: Attacker) -> None:
    """Webhooks at names that no server of names answers for: registered again and again, and due all the time."""
    place = attacker.holdings.unnamed
    path = f"/v1/projects/{place.project}/webhooks"
    await _registered(attacker, place, [])

    def client() -> Client:
        while True:
            wish = {"url": f"https://{secrets.token_hex(6)}{HANGING}/", "events": ["*"]}
            status, _, answer = yield attacker.post(path, wish)
            for _ in range(4):
                yield _deploy(attacker, place)
            if status < 300:
                _, target, headers, body = attacker.get(f"{path}/{json.loads(answer)['id']}")
                yield "DELETE", target, headers, body

    await attacker.follow(client, 2 * CLIENTS)


@asynccontextmanager
async def _silence() -> AsyncIterator[tuple[int, list[asyncio.StreamWriter]]]:
    """A port of a receiver that takes everything and says nothing, and its connections."""
    standing: list[asyncio.StreamWriter] = []

    async def listen(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        standing.append(writer)

    receiver = await asyncio.start_server(listen, "127.0.0.1", 0)
    try:
        yield receiver.sockets[0].getsockname()[1], standing
    finally:
        receiver.close()
        for writer in standing:
            writer.close()


async def silences(attacker: Attacker) -> None:
    """Twenty webhooks at receivers that never answer, with more events than they could ever be told of."""
    place = attacker.holdings.muted
    async with _silence() as (port, standing):
        await _registered(attacker, place, [f"http://127.0.0.1:{port}/{n}" for n in range(MOST_WEBHOOKS)])
        await attacker.repeat(lambda _: _deploy(attacker, place), CLIENTS)
        attacker.tally.opened = len(standing)


SHAPES = (pages, tools, proofs, downloads, lookups, silences)
