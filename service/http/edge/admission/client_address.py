"""Whose address a request comes from: its peer's, or what a trusted proxy says of it (SERVICE_TRUSTED_PROXIES).

Anybody can send `X-Forwarded-For` and `Forwarded`; each proxy appends the address that it saw to the right. So they are
believed from trusted peers alone, from the right, up to the first address that is no trusted proxy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]

SUBSCRIBER_BITS = 64  # of an IPv6 address: a subscriber has at least this network to itself, and counts as one
_PAIR = re.compile(r"[ \t]*([\w!#$%&'*+.^`|~-]+)[ \t]*=[ \t]*(?:\"((?:[^\"\\]|\\.)*)\"|([^;,\"\s]*))[ \t]*", re.ASCII)
_NOTHING = re.compile(r"[ \t]*")
_ESCAPED = re.compile(r"\\(.)")
_WITH_PORT = re.compile(r"(?:\[([^\]]+)\]|([0-9.]+))(?::\d{1,5})?")


def client_address(peer: str, headers: Mapping[str, str], trusted: Networks) -> str:
    """The address that limits count: that of the client, an IPv6 one as its network of 64 bits.

    `peer` is who opened the connection. Where both headers are sent and disagree, a client has made up one of them,
    and neither is believed.
    """
    if not trusted and ":" not in peer:
        return peer
    return _counted(_client(peer, headers.get("x-forwarded-for"), headers.get("forwarded"), trusted))


def _client(peer: str, forwarded_for: str | None, forwarded: str | None, trusted: Networks) -> str:
    own = _address(peer)
    if own is None or not _is_in(own, trusted):
        return peer
    said = []
    if forwarded_for is not None:
        said.append(_walk(own, forwarded_for.split(","), trusted))
    if forwarded is not None:
        said.append(_walk(own, _named(forwarded), trusted))
    return str(said[0]) if said and all(address == said[0] for address in said) else peer


def _walk(address: Address, hops: Sequence[str], trusted: Networks) -> Address:
    """The first address from the right that is no trusted proxy; the last one known where a hop is no address."""
    for hop in reversed(hops):
        if not _is_in(address, trusted):
            break
        before = _address(hop.strip())
        if before is None:
            break
        address = before
    return address


def _named(forwarded: str) -> list[str]:
    """The `for` of each element of a Forwarded header, "" where there is none (RFC 7239 §4).

    Commas and semicolons within quotes are text: cut at each, a client could write an element that none of the proxies
    has written. A header that is not well formed, or names two in one element, says nothing.
    """
    hops, at = [""], 0
    while True:
        pair = _PAIR.match(forwarded, at)
        if pair is not None and pair[1].lower() == "for":
            if hops[-1]:
                return []
            hops[-1] = pair[3] if pair[2] is None else _ESCAPED.sub(r"\1", pair[2])
        at = (pair or _NOTHING.match(forwarded, at)).end()  # type: ignore[union-attr]
        if at == len(forwarded):
            return hops
        if forwarded[at] not in ",;":
            return []
        if forwarded[at] == ",":
            hops.append("")
        at += 1


@lru_cache(maxsize=4096)
def _address(text: str) -> Address | None:
    """An address, with or without a port; None for anything else, such as `unknown`. IPv4 in IPv6 counts as IPv4."""
    if (found := _WITH_PORT.fullmatch(text)) is not None:
        text = found[1] or found[2]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_in(address: Address, networks: Networks) -> bool:
    return any(address in network for network in networks)


def _counted(text: str) -> str:
    """The form in which addresses are counted."""
    address = _address(text)
    if not isinstance(address, IPv6Address):
        return text if address is None else str(address)
    return f"{IPv6Network((address, SUBSCRIBER_BITS), strict=False)}"
