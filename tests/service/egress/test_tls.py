"""Secure calls through the guard: the name in SNI, its certificate verified, on both event loops (G-150)."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from service.egress.exchange import NotReceived, Received
from service.egress.guard import DEVELOPMENT, Guard
from service.egress.lookups import Lookups
from tests.service.egress.test_guard import HEAD, OK, POST, leading_to
from tests.support.receiver import answers, receiving, repeats

NAME = "hook.example"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a scenario on one of the event loops that processes have."""

    def run(scenario: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(scenario)

    return run


def serving(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """What a server shows a certificate for these names with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> Guard:
    """A guard that trusts an authority, and for which every name leads to loopback."""

    def trust() -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    return Guard(Lookups(leading_to("127.0.0.1")), trust)


async def call(guard: Guard, port: int, host: str = NAME, seconds: float = 30) -> Received | NotReceived:
    return await guard.call(f"https://{host}:{port}/in", POST, account="a", reach=DEVELOPMENT, seconds=seconds)


def test_the_name_is_in_sni_and_host(run: Any, authority: trustme.CA) -> None:
    """The connection goes to the address, the certificate is the name's; a second call uses the same trust."""

    async def scenario() -> None:
        async with receiving(answers(OK), context=serving(authority, NAME)) as receiver:
            guard = trusting(authority)
            for _ in range(2):
                assert await call(guard, receiver.port) == Received(200, b"hi", cut=False)
            assert receiver.names == [NAME] * 2
            assert f"host: {NAME}:{receiver.port}\r\n".encode() in receiver.requests[0]

    run(scenario())


def test_a_foreign_name_is_sent_in_ascii(run: Any, authority: trustme.CA) -> None:
    """SNI, Host and certificate hold what is looked up."""

    async def scenario() -> None:
        async with receiving(answers(OK), context=serving(authority, "xn--bcher-kva.example")) as receiver:
            assert await call(trusting(authority), receiver.port, "bücher.example") == Received(200, b"hi", cut=False)
            assert receiver.names == ["xn--bcher-kva.example"]
            assert b"host: xn--bcher-kva.example:" in receiver.requests[0]

    run(scenario())


def test_a_literal_needs_a_certificate_for_the_address(run: Any, authority: trustme.CA) -> None:
    """Without a name nothing is in SNI."""

    async def scenario() -> None:
        async with receiving(answers(OK), context=serving(authority, "127.0.0.1")) as receiver:
            assert await call(trusting(authority), receiver.port, "127.0.0.1") == Received(200, b"hi", cut=False)
            assert receiver.names == [None]
        async with receiving(answers(OK), context=serving(authority, NAME)) as receiver:
            assert await call(trusting(authority), receiver.port, "127.0.0.1") == NotReceived("certificate")

    run(scenario())


@pytest.mark.parametrize("wrong", ["other name", "address", "other authority"])
def test_a_wrong_certificate_gets_no_request(run: Any, authority: trustme.CA, wrong: str) -> None:
    """Neither one for another name or for the address, nor one of an authority that nobody trusts."""
    names = {"other name": "other.example", "address": "127.0.0.1", "other authority": NAME}[wrong]
    issuer = trustme.CA() if wrong == "other authority" else authority

    async def scenario() -> None:
        async with receiving(answers(OK), context=serving(issuer, names)) as receiver:
            assert await call(trusting(authority), receiver.port) == NotReceived("certificate")
            assert receiver.requests == []

    run(scenario())


def test_one_who_speaks_no_tls(run: Any, authority: trustme.CA) -> None:
    """An answer in plain text is no handshake; one who says nothing is left in time."""

    async def scenario() -> None:
        async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(OK)
            await writer.drain()
            writer.transport.abort()
            over.set()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(65536):
                pass
            writer.transport.abort()
            over.set()

        for behave, expected in ((plain, NotReceived("tls")), (silent, NotReceived("timeout"))):
            over = asyncio.Event()
            server = await asyncio.start_server(behave, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            assert await call(trusting(authority), port, seconds=0.5) == expected
            server.close()
            await asyncio.wait_for(over.wait(), 30)
            await asyncio.sleep(0)

    run(scenario())


def test_secure_answers_are_bounded_too(run: Any, authority: trustme.CA) -> None:
    """Endless and dripping ones, over TLS."""

    async def scenario() -> None:
        context = serving(authority, NAME)
        async with receiving(repeats(HEAD + b"\r\n", b"b" * 65536), context=context) as receiver:
            received = await call(trusting(authority), receiver.port)
            assert isinstance(received, Received)
            assert (len(received.body), received.cut) == (65536, True)
        async with receiving(repeats(HEAD + b"\r\n", b"b", every=0.01), context=context) as receiver:
            assert await call(trusting(authority), receiver.port, seconds=0.5) == NotReceived("timeout")

    run(scenario())


def test_what_the_machine_trusts(authority: trustme.CA, tmp_path: Path) -> None:
    """By default certificates are verified; SSL_CERT_FILE names the operator's own authorities.

    In a process of its own, as libraries of other tests change what a process trusts.
    """
    bundle = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(bundle))
    shown = "c.check_hostname, c.verify_mode, len(c.get_ca_certs())"
    told = f"from service.egress.guard import trust; c = trust(); print({shown})"
    done = subprocess.run(
        [sys.executable, "-c", told],
        env={**os.environ, "SSL_CERT_FILE": str(bundle)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", str(ssl.CERT_REQUIRED), "1"]
