"""The one client for every address named by somebody else (G-150).

A name is looked up once an attempt, every address found is judged, and the connection goes to one of those. There is
no redirect, proxy, netrc, cookie or content coding, and no connection is used twice.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from service.egress.exchange import (
    MAX_BODY,
    AddressRefused,
    Ip,
    NotReceived,
    Reason,
    Received,
    Request,
    Target,
    converse,
    is_loopback,
    is_reachable,
    take_apart,
)
from service.egress.lookups import Lookups, NameTooSlow
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

    def check_form(self, target: Target) -> None:
        """Check an address without a look-up. Raises AddressRefused."""
        if not target.secure and self.plain == "nowhere":
            raise AddressRefused("must begin with https://")
        port = target.port
        if not self.any_port and (port in CLOSED_PORTS or (port < FIRST_PORT and port != HTTPS_PORT)):
            raise AddressRefused("must have port 443, or one from 1024 on that is no database's")
        if target.ip is not None:
            self.check_addresses(target, (target.ip,))

    def check_addresses(self, target: Target, found: Iterable[Ip]) -> None:
        """Check every address of a host. A single bad one is enough to raise AddressRefused.

        Over http to loopback so is none: the name may lead anywhere later, and what is sent could be read on its way.
        """
        addresses = tuple(found)
        if not target.secure and self.plain == "loopback" and not (addresses and all(map(is_loopback, addresses))):
            raise AddressRefused("must begin with https://, unless it leads to loopback")
        if not self.any_address and not all(map(is_reachable, addresses)):
            raise AddressRefused("must lead to public addresses")


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
BUFFER = 16 * 1024
"""Unread bytes of an answer, before its sender has to wait."""

_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def trust() -> ssl.SSLContext:
    """Make the context for verifying certificates: by the machine's authorities, or those in SSL_CERT_FILE."""
    import httpx2  # noqa: PLC0415 - it takes a tenth of a second, which no start has to wait for

    context = httpx2.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Guard:
    """The client of one process, used from its event loop."""

    def __init__(self, lookups: Lookups | None = None, trust: Callable[[], ssl.SSLContext] = trust) -> None:
        self._lookups = lookups or Lookups()
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._making = asyncio.Lock()

    async def refusal(self, url: str, account: str | None, reach: Reach) -> str | None:
        """Why an address may not be registered, as "must …".

        None if it may, also over https while its name does not resolve: it is judged at every call.
        """
        try:
            target = take_apart(url)
            reach.check_form(target)
            if target.ip is None:
                reach.check_addresses(target, await self._known(account, target.host))
        except AddressRefused as error:
            return str(error)
        return None

    async def _known(self, account: str | None, host: str) -> Sequence[Ip]:
        """The addresses of a name, none also when they are not found in time."""
        try:
            return await self._lookups.find(account, host)
        except (NameTooSlow, ReadNotDone):
            return ()

    async def call(
        self,
        url: str,
        request: Request,
        *,
        account: str | None,
        reach: Reach,
        max_body: int = MAX_BODY,
        seconds: float = SECONDS,
    ) -> Received | NotReceived:
        """Send a request to an address, by the look-ups of an account or OF_OPERATOR, and read the answer.

        Raises ValueError for headers of ours that HTTP does not carry.
        """
        try:
            target = take_apart(url)
            reach.check_form(target)
            until = asyncio.get_running_loop().time() + seconds
            async with asyncio.timeout_at(until):
                return await self._call(target, request, account, reach, max_body, until)
        except AddressRefused:
            return NotReceived("refused")
        except ReadNotDone:
            return NotReceived("busy")
        except NameTooSlow:
            return NotReceived("slow_name")
        except TimeoutError:
            return NotReceived("timeout")

    async def _call(
        self, target: Target, request: Request, account: str | None, reach: Reach, max_body: int, until: float
    ) -> Received | NotReceived:
        found: Sequence[Ip] = (target.ip,) if target.ip is not None else await self._lookups.find(account, target.host)
        if not found:
            return NotReceived("unknown_name")
        reach.check_addresses(target, found)
        stream = await self._connect(target, found[:MOST_ADDRESSES], until)
        if isinstance(stream, NotReceived):
            return stream
        reader, writer = stream
        try:
            return await converse(reader, writer, target, request, max_body)
        except OSError:
            return NotReceived("closed")
        finally:
            writer.transport.abort()  # Nobody waits for the other side's farewell.

    async def _connect(self, target: Target, addresses: Sequence[Ip], until: float) -> _Stream | NotReceived:
        """Connect to the first address that answers. The name goes into SNI, and the certificate has to be for it."""
        context = await self._verifying() if target.secure else None
        clock = asyncio.get_running_loop().time
        reason: Reason = "unreachable"
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
                return NotReceived("certificate")
            except ssl.SSLError:
                return NotReceived("tls")
            except OSError as error:
                reason = "timeout" if isinstance(error, TimeoutError) else "unreachable"
        return NotReceived(reason)

    async def _verifying(self) -> ssl.SSLContext:
        async with self._making:
            if self._context is None:
                self._context = await asyncio.to_thread(self._trust)
            return self._context
