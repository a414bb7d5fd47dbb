"""The one client for every address named by somebody else (G-150).

A name is looked up once an attempt, every address found is judged, and the connection goes to one of those. There is
no redirect, proxy, netrc, cookie or content coding, and no connection is used twice.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence

from service.egress.addresses import Ip
from service.egress.exchange import MAX_BODY, Request, converse
from service.egress.form import AddressRefused, Target, take_apart
from service.egress.lookups import Lookups, NameTooSlow
from service.egress.outcomes import NotReceived, Reason, Received
from service.egress.reach import Reach
from service.fairness.not_done import ReadNotDone

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
