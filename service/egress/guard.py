"""The one client for every address named by somebody else (G-150).

A name is looked up once an attempt, every address found is judged, and the connection goes to one of those. There is
no redirect, proxy, netrc, cookie or content coding, and no connection is used twice.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from service.egress import exchange
from service.egress.lookups import OF_OPERATOR, Lookups, NameTooSlow
from service.fairness.turns import ReadNotDone

# Where an address may lead: a caller's to the public internet alone, the operator's anywhere.

HTTPS_PORT = 443
FIRST_PORT = 1024
"""The first port at which anybody may listen; those below belong to mail, files and shells."""
CLOSED_PORTS = frozenset({3306, 5432, 6379, 9200, 11211, 27017})
"""Ports of databases. Some of these take the lines of an HTTP request for commands."""


class Reach(NamedTuple):
    """The rules lifted for an address: on addresses, on ports, and on http without TLS."""

    any_address: bool = False
    any_port: bool = False
    plain: Literal["nowhere", "loopback", "anywhere"] = "nowhere"

    def check_form(self, target: exchange.Target) -> None:
        """Check an address without a look-up. Raises AddressRefused."""
        if not target.secure and self.plain == "nowhere":
            raise exchange.AddressRefused("must begin with https://")
        port = target.port
        if not self.any_port and (port in CLOSED_PORTS or (port < FIRST_PORT and port != HTTPS_PORT)):
            raise exchange.AddressRefused("must have port 443, or one from 1024 on that is no database's")
        if target.ip is not None:
            self.check_addresses(target, (target.ip,))

    def check_addresses(self, target: exchange.Target, found: Iterable[exchange.Ip]) -> None:
        """Check every address of a host. A single bad one is enough to raise AddressRefused.

        Over http to loopback so is none: the name may lead anywhere later, and what is sent could be read on its way.
        """
        addresses = tuple(found)
        if (
            not target.secure
            and self.plain == "loopback"
            and not (addresses and all(map(exchange.is_loopback, addresses)))
        ):
            raise exchange.AddressRefused("must begin with https://, unless it leads to loopback")
        if not self.any_address and not all(map(exchange.is_reachable, addresses)):
            raise exchange.AddressRefused("must lead to public addresses")


CALLERS = Reach()
"""For addresses of callers."""
DEVELOPMENT = Reach(any_address=True, any_port=True, plain="loopback")
"""For webhooks while the operator has set SERVICE_WEBHOOK_ALLOW_PRIVATE."""
OPERATOR = Reach(any_address=True, any_port=True, plain="anywhere")
"""For hosts in the operator's settings."""


def reach_of_webhooks(*, allow_private: bool) -> Reach:
    """Where webhooks may lead, by the operator's setting."""
    return DEVELOPMENT if allow_private else CALLERS


SECONDS = 10.0
"""For one call in all, the look-up and the wait for its turn included."""
MOST_ADDRESSES = 4
"""Addresses of a host to try, one after the other, in equal parts of the time left."""
HTTP, OTHER = "http/1.1", ""
"""What is spoken inside of TLS: its name, or none."""
BUFFER = 16 * 1024
"""Unread bytes of an answer, before its sender has to wait."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def trust() -> ssl.SSLContext:
    """Make the context for verifying certificates: by the machine's authorities, or those in SSL_CERT_FILE."""
    import httpx2  # noqa: PLC0415 - it takes a tenth of a second, which no start has to wait for

    return httpx2.create_ssl_context()


class Guard:
    """The client of one process, used from its event loop."""

    def __init__(self, lookups: Lookups | None = None, trust: Callable[[], ssl.SSLContext] = trust) -> None:
        self._lookups = lookups or Lookups()
        self._trust = trust
        self._contexts: dict[str, ssl.SSLContext] = {}  # by the protocol inside of TLS
        self._making = asyncio.Lock()

    async def refusal(self, url: str, account: str | None, reach: Reach) -> str | None:
        """Why an address may not be registered, as "must …".

        None if it may, also over https while its name does not resolve: it is judged at every call.
        """
        try:
            target = exchange.take_apart(url)
            reach.check_form(target)
            if target.ip is None:
                reach.check_addresses(target, await self._known(account, target.host))
        except exchange.AddressRefused as error:
            return str(error)
        return None

    async def _known(self, account: str | None, host: str) -> Sequence[exchange.Ip]:
        """The addresses of a name, none also when they are not found in time."""
        try:
            return await self._lookups.find(account, host)
        except (NameTooSlow, ReadNotDone):
            return ()

    async def call(
        self,
        url: str,
        request: exchange.Request,
        *,
        account: str | None,
        reach: Reach,
        max_body: int = exchange.MAX_BODY,
        seconds: float = SECONDS,
    ) -> exchange.Received | exchange.NotReceived:
        """Send a request to an address, by the look-ups of an account or OF_OPERATOR, and read the answer.

        Raises ValueError for headers of ours that HTTP does not carry.
        """
        try:
            target = exchange.take_apart(url)
            reach.check_form(target)
            until = asyncio.get_running_loop().time() + seconds
            async with asyncio.timeout_at(until):
                return await self._call(target, request, account, reach, max_body, until)
        except exchange.AddressRefused:
            return exchange.NotReceived("refused")
        except ReadNotDone:
            return exchange.NotReceived("busy")
        except NameTooSlow:
            return exchange.NotReceived("slow_name")
        except TimeoutError:
            return exchange.NotReceived("timeout")

    async def _call(
        self,
        target: exchange.Target,
        request: exchange.Request,
        account: str | None,
        reach: Reach,
        max_body: int,
        until: float,
    ) -> exchange.Received | exchange.NotReceived:
        found: Sequence[exchange.Ip] = (
            (target.ip,) if target.ip is not None else await self._lookups.find(account, target.host)
        )
        if not found:
            return exchange.NotReceived("unknown_name")
        reach.check_addresses(target, found)
        stream = await self._connect(target, found[:MOST_ADDRESSES], until, HTTP)
        if isinstance(stream, exchange.NotReceived):
            return stream
        reader, writer = stream
        try:
            return await exchange.converse(reader, writer, target, request, max_body)
        except OSError:
            return exchange.NotReceived("closed")
        finally:
            writer.transport.abort()  # Nobody waits for the other side's farewell.

    async def open(self, target: exchange.Target, until: float) -> Stream | exchange.NotReceived:
        """Connect to a server of the operator's settings that speaks no HTTP, until a time of the event loop."""
        try:
            found = (target.ip,) if target.ip is not None else await self._lookups.find(OF_OPERATOR, target.host)
        except ReadNotDone:
            return exchange.NotReceived("busy")
        except NameTooSlow:
            return exchange.NotReceived("slow_name")
        if not found:
            return exchange.NotReceived("unknown_name")
        return await self._connect(target, found[:MOST_ADDRESSES], until, OTHER)

    async def secure(self, stream: Stream, host: str) -> Stream | exchange.NotReceived:
        """Go on under TLS over an open connection, verified for a host. What was read before TLS is forgotten."""
        context = await self._verifying(OTHER)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=BUFFER)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport = await loop.start_tls(stream[1].transport, protocol, context, server_hostname=host)
        except ssl.SSLCertVerificationError:
            return exchange.NotReceived("certificate")
        except ssl.SSLError:
            return exchange.NotReceived("tls")
        except OSError:
            return exchange.NotReceived("closed")
        assert transport is not None, "one that is closing has raised"
        protocol.connection_made(transport)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _connect(
        self, target: exchange.Target, addresses: Sequence[exchange.Ip], until: float, inside: str
    ) -> Stream | exchange.NotReceived:
        """Connect to the first address that answers. The name goes into SNI, and the certificate has to be for it."""
        context = await self._verifying(inside) if target.secure else None
        clock = asyncio.get_running_loop().time
        reason: exchange.Reason = "unreachable"
        for place, address in enumerate(addresses):
            try:
                async with asyncio.timeout((until - clock()) / (len(addresses) - place)):
                    return await asyncio.open_connection(
                        str(address),
                        target.port,
                        limit=BUFFER,
                        ssl=context,
                        server_hostname=target.host if target.secure else None,
                    )
            except ssl.SSLCertVerificationError:
                return exchange.NotReceived("certificate")
            except ssl.SSLError:
                return exchange.NotReceived("tls")
            except OSError as error:
                reason = "timeout" if isinstance(error, TimeoutError) else "unreachable"
        return exchange.NotReceived(reason)

    async def _verifying(self, inside: str) -> ssl.SSLContext:
        async with self._making:
            if inside not in self._contexts:
                context = await asyncio.to_thread(self._trust)
                if inside == HTTP:
                    context.set_alpn_protocols([HTTP])
                self._contexts[inside] = context
            return self._contexts[inside]
