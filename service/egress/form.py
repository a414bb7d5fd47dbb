"""The form of an address named by a caller: taken apart strictly, with one reading alone (G-150).

Two readers of URLs must not understand an address differently. So user information, backslashes and blanks are refused,
and an IPv4 address is four decimal numbers. Nothing here looks a name up.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import quote

import idna

from service.egress.addresses import Ip

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
