"""A small HTTP load generator: keep-alive connections on loopback, one scripted client on each.

A server that closes a connection after its answer is given a new one for the next request, which takes its time too.

A client is a generator: it yields (method, path, headers, body) and is sent (status, headers, body). Standard
library only and one parse per answer, so that the generator itself takes as little of the machine as can be.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

Request = tuple[str, str, dict[str, str], bytes]
Response = tuple[int, dict[bytes, bytes], bytes]
Client = Generator[Request, Response, None]


@dataclass
class Stats:
    """The results: latencies in seconds of the answers with a 2xx status, and all statuses."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """2xx answers per second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """A percentile of the latencies in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def encode(host: str, request: Request) -> bytes:
    """Encode a request."""
    method, path, headers, body = request
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def receive(reader: asyncio.StreamReader) -> Response:
    """Read one answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    length = int(headers.get(b"content-length", b"0"))
    body = await reader.readexactly(length) if length else b""
    return int(first.split(b" ", 2)[1]), headers, body


async def _drive(host: str, port: int, client: Client, until: float, stats: Stats) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        request = next(client)  # A client may send nothing.
        while time.perf_counter() < until:
            began = time.perf_counter()
            if writer.is_closing():
                reader, writer = await asyncio.open_connection(host, port)
            writer.write(encode(f"{host}:{port}", request))
            response = await receive(reader)
            if response[1].get(b"connection", b"").lower() == b"close":
                writer.close()
            stats.statuses[response[0]] += 1
            if 200 <= response[0] < 300:
                stats.latencies.append(time.perf_counter() - began)
            request = client.send(response)
    except StopIteration:
        pass
    finally:
        writer.close()


def run(host: str, port: int, make_client: Callable[[int], Client], clients: int, seconds: float) -> Stats:
    """Drive `clients` connections for `seconds`; bounded, and stops by itself."""

    async def everything() -> Stats:
        stats = Stats()
        began = time.perf_counter()
        tasks = [_drive(host, port, make_client(n), began + seconds, stats) for n in range(clients)]
        await asyncio.gather(*tasks)
        stats.seconds = time.perf_counter() - began
        return stats

    return asyncio.run(everything())


def at_once(host: str, port: int, requests: Sequence[Request]) -> tuple[float, list[Response]]:
    """Send requests at the same moment, each on a connection that stands already.

    Returns the seconds to the last answer, and the answers in the order of the requests.
    """

    async def one(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Response:
        writer.write(encode(f"{host}:{port}", request))
        return await receive(reader)

    async def everything() -> tuple[float, list[Response]]:
        opened = [await asyncio.open_connection(host, port) for _ in requests]
        began = time.perf_counter()
        answers = await asyncio.gather(*(one(*pair) for pair in zip(requests, *zip(*opened, strict=True), strict=True)))
        seconds = time.perf_counter() - began
        for _, writer in opened:
            writer.close()
        return seconds, list(answers)

    return asyncio.run(everything())


def send(host: str, port: int, request: Request) -> bytes:
    """Send one request and return the body of its answer; raises on any status but 2xx."""

    async def once() -> Response:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(encode(f"{host}:{port}", request))
        response = await receive(reader)
        writer.close()
        return response

    status, _, body = asyncio.run(once())
    if not 200 <= status < 300:
        raise SystemExit(f"{request[0]} {request[1]} answered {status}: {body[:400]!r}")
    return body


def call(host: str, port: int, request: Request) -> Any:
    """Send one request and return its decoded JSON; raises as `send`."""
    return json.loads(send(host, port, request))
