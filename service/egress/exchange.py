"""One request and its answer over an open connection to a judged address, both bounded (G-150).

h11 reads the bytes, and this module bounds them. Codings of the content stay as they are: nothing is
unpacked, so a small answer cannot become a large one.
"""

import asyncio
import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal, NamedTuple
from urllib.parse import quote

import h11
import idna

# Which IP addresses may be called: globally reachable unicast, by a list of our own (G-150). The interpreter's
# `is_global` differs between its releases, and counts addresses as global although a router, a translator or a tunnel
# leads them back inside: 64:ff9b::/96, 2002::/16, ::127.0.0.1, fec0::/10. So this list stands here whole. It follows
# the special-purpose registries of IANA, and refuses also their few reachable networks.

Ip = IPv4Address | IPv6Address

_CLOSED_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private use
            "100.64.0.0/10",  # shared by a provider's customers
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # the host of a virtual machine at Azure
            "169.254.0.0/16",  # link-local, with the metadata of most clouds
            "172.16.0.0/12",  # private use
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # multicast tunnels
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private use
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)

_OPEN_6 = IPv6Network("2000::/3")
"""All global unicast of IPv6; so ::/96, 64:ff9b::/96, 64:ff9b:1::/48, fc00::/7, fe80::/10, fec0::/10 are out."""

_CLOSED_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID and others
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)

_ISATAP = 0x5EFE
"""The upper half of an interface's id that holds an IPv4 address in its lower half, but for its universal bit."""
_UNIVERSAL = 0x0200_0000

_LOOPBACK_4 = IPv4Network("127.0.0.0/8")
_LOOPBACK_6 = IPv6Address("::1")


def is_reachable(ip: Ip) -> bool:
    """Whether an address is globally reachable unicast. An IPv4 address mapped into IPv6 counts as itself."""
    ip = _inner(ip)
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _CLOSED_4)
    if ip.scope_id is not None or ip not in _OPEN_6 or _is_isatap(ip):
        return False
    return not any(ip in network for network in _CLOSED_6)


def is_loopback(ip: Ip) -> bool:
    """Whether an address leads back to this machine, also mapped into IPv6."""
    ip = _inner(ip)
    return ip in _LOOPBACK_4 if isinstance(ip, IPv4Address) else ip == _LOOPBACK_6


def _inner(ip: Ip) -> Ip:
    """The IPv4 address inside ::ffff:0:0/96. The system calls it when given the IPv6 one."""
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip


def _is_isatap(ip: IPv6Address) -> bool:
    return (int(ip) >> 32) & 0xFFFF_FFFF & ~_UNIVERSAL == _ISATAP


# The form of an address named by a caller: taken apart strictly, with one reading alone (G-150). Two readers of URLs
# must not understand an address differently. So user information, backslashes and blanks are refused, and an IPv4
# address is four decimal numbers. Nothing here looks a name up.

MAX_URL = 2000
"""Characters of an address."""
MAX_NAME = 253
"""Characters of a host name, as it is looked up."""
MAX_PORT = 65535

PORTS = {"https": 443, "http": 80}

_WHOLE = re.compile(r"(https?)://([^/?]*)(.*)", re.IGNORECASE | re.ASCII)
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]{1,5}))?")
_NAMED = re.compile(r"([^:\[\]]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""What makes the last label of a host a part of an IPv4 address, for whoever reads it as browsers and libc do."""
_TARGET = "".join(chr(code) for code in range(0x21, 0x7F))
"""What stays as it is in a path: everything visible of ASCII."""

_NOT_DECIMAL = "must write an IPv4 address as four decimal numbers"
_NO_NAME = "must name its host by labels of 1 to 63 letters, digits and hyphens"


class AddressRefused(Exception):
    """The address may not be called. The message names the rule, and holds no part of the address."""


class Target(NamedTuple):
    """An address taken apart: `host` in ASCII without brackets, `path` with its query. `ip` is set for a literal."""

    secure: bool
    host: str
    ip: Ip | None
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Value of the Host header: with the port, unless it is the scheme's own."""
        host = f"[{self.host}]" if isinstance(self.ip, IPv6Address) else self.host
        return host if self.port == PORTS["https" if self.secure else "http"] else f"{host}:{self.port}"


def take_apart(url: str) -> Target:
    """Take an http or https address apart. Raises AddressRefused, and nothing else, for any text."""
    if len(url) > MAX_URL:
        raise AddressRefused(f"must have at most {MAX_URL} characters")
    if not url.isprintable() or " " in url or "\\" in url:
        raise AddressRefused("must not hold blanks, control characters or backslashes")
    if "#" in url:
        raise AddressRefused("must not have a fragment")
    whole = _WHOLE.fullmatch(url)
    if whole is None:
        raise AddressRefused("must begin with https:// and a host")
    scheme, authority, rest = whole[1].lower(), whole[2], whole[3]
    if "@" in authority:
        raise AddressRefused("must not hold user information")
    host, ip, port = _host(authority)
    number = PORTS[scheme] if port is None else int(port)
    if not 0 < number <= MAX_PORT:
        raise AddressRefused(f"must have a port from 1 to {MAX_PORT}")
    path = quote(rest if rest.startswith("/") else f"/{rest}", safe=_TARGET)
    return Target(scheme == "https", host, ip, number, path)


def _host(authority: str) -> tuple[str, Ip | None, str | None]:
    """The host, its address if it is a literal, and the digits of the port if there are any."""
    if bracketed := _BRACKETED.fullmatch(authority):
        try:
            ip6 = IPv6Address(bracketed[1])
        except AddressValueError:
            raise AddressRefused("must have an IPv6 address between its brackets") from None
        return ip6.compressed, ip6, bracketed[2]
    named = _NAMED.fullmatch(authority)
    if named is None:
        raise AddressRefused("must have a host, and at most a port after it")
    host = _ascii(named[1])
    if _DECIMAL.fullmatch(host):
        try:
            return host, IPv4Address(host), named[2]
        except AddressValueError:
            raise AddressRefused(_NOT_DECIMAL) from None
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise AddressRefused(_NOT_DECIMAL)
    return host, None, named[2]


def _ascii(host: str) -> str:
    """A host name as it is looked up: in lower case, its labels without foreign characters (IDNA)."""
    if not host.isascii() or "xn--" in host.lower():
        try:
            host = idna.encode(host, uts46=True).decode()
        except UnicodeError:  # also every error of the library
            raise AddressRefused(_NO_NAME) from None
    host = host.lower()
    if len(host) > MAX_NAME or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise AddressRefused(_NO_NAME)
    return host


# The outcome of a call: an answer, or the reason for none, in one of our own sentences (G-150). Sentences are stored
# and shown. None of them holds a byte of the other side, of the address or of an error's text.

Reason = Literal[
    "refused",
    "unknown_name",
    "slow_name",
    "busy",
    "unreachable",
    "certificate",
    "tls",
    "timeout",
    "closed",
    "malformed",
    "head",
]

SENTENCES: dict[Reason, str] = {
    "refused": "The address may not be called.",
    "unknown_name": "The host name does not resolve.",
    "slow_name": "The host name was not resolved in time.",
    "busy": "Too many look-ups of this account were waiting.",
    "unreachable": "No connection could be made.",
    "certificate": "The certificate of the host could not be verified.",
    "tls": "No secure connection could be agreed on.",
    "timeout": "There was no complete answer in time.",
    "closed": "The connection ended before the answer was complete.",
    "malformed": "The answer is not valid HTTP.",
    "head": "The head of the answer is too large.",
}


class Received(NamedTuple):
    """An answer of any status. `body` is as sent, with no coding undone. `cut` when there was more of it.

    `retry_after` is that header, as it was sent.
    """

    status: int
    body: bytes
    cut: bool
    retry_after: str | None = None


class NotReceived(NamedTuple):
    """No answer, and why."""

    reason: Reason

    @property
    def sentence(self) -> str:
        """The reason for people."""
        return SENTENCES[self.reason]


# One request and its answer over an open connection, both bounded (G-150).

MAX_HEAD = 16 * 1024
"""Bytes before the body: status and headers, those of informational answers included."""
MAX_BODY = 64 * 1024
"""Bytes read of a body, unless a call says otherwise."""
AT_ONCE = 64 * 1024
USER_AGENT = "service/3"
RETRY_AFTER = b"retry-after"


class Request(NamedTuple):
    """A request without its address. Host, length and headers of the connection are not the caller's to give."""

    method: str
    headers: Mapping[str, str]
    body: bytes = b""


async def converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Target, request: Request, max_body: int
) -> Received | NotReceived:
    """Send a request and read its answer, up to `max_body` bytes of body. Raises OSError when the connection breaks."""
    sender = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    try:
        # It is not waited for: whoever answers before reading is heard all the same.
        writer.write(_written(sender, target, request))
    except h11.LocalProtocolError as error:
        raise ValueError("a header holds what HTTP does not carry") from error
    return await _Answer(reader, sender, max_body).read()


def _written(sender: h11.Connection, target: Target, request: Request) -> bytes:
    headers = {
        "host": target.authority,
        "user-agent": USER_AGENT,
        "accept-encoding": "identity",
        "connection": "close",
        "content-length": str(len(request.body)),
        **request.headers,
    }
    head = h11.Request(method=request.method, target=target.path, headers=list(headers.items()))
    parts = [sender.send(head), sender.send(h11.Data(request.body)), sender.send(h11.EndOfMessage())]
    return b"".join(part for part in parts if part)


class _Answer:
    """An answer as it comes in."""

    def __init__(self, reader: asyncio.StreamReader, connection: h11.Connection, max_body: int) -> None:
        self._reader = reader
        self._connection = connection
        self._max_body = max_body
        self._status: int | None = None
        self._retry_after: str | None = None
        self._body = bytearray()
        self._head_left = MAX_HEAD
        # Chunks have sizes and extensions, which count as well: half of what comes may be those.
        self._wire_left = 2 * max_body + MAX_HEAD
        self._ended = False

    async def read(self) -> Received | NotReceived:
        """Read until the answer is complete, or one of its bounds is reached."""
        while True:
            try:
                event = self._connection.next_event()
            except h11.RemoteProtocolError:
                return NotReceived("closed" if self._ended else "malformed")
            if event is h11.NEED_DATA:
                if not await self._feed():
                    return self._received(cut=True) if self._status is not None else NotReceived("head")
                continue
            match event:
                case h11.Response(status_code=status, headers=headers):
                    self._status = status
                    self._retry_after = next((v.decode("latin-1") for name, v in headers if name == RETRY_AFTER), None)
                case h11.Data(data=data):
                    self._body += data
                    if len(self._body) > self._max_body:
                        return self._received(cut=True)
                case h11.EndOfMessage():
                    return self._received(cut=False)
                case h11.ConnectionClosed() | h11.PAUSED:
                    return NotReceived("closed" if self._ended else "malformed")
                case _:  # an informational answer, before the one that counts
                    pass

    async def _feed(self) -> bool:
        """Give the parser the next bytes. False when it may have no more."""
        left = self._head_left if self._status is None else self._wire_left
        if left <= 0:
            return False
        data = await self._reader.read(min(left, AT_ONCE))
        self._ended = not data
        if self._status is None:
            self._head_left -= len(data)
        else:
            self._wire_left -= len(data)
        self._connection.receive_data(data)
        return True

    def _received(self, *, cut: bool) -> Received:
        assert self._status is not None, "a body follows its head"
        return Received(self._status, bytes(self._body[: self._max_body]), cut, self._retry_after)
