"""Which IP addresses may be called (G-150)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.egress.exchange import is_loopback, is_reachable

CLOSED_4 = {
    "this network": ("0.0.0.0", "0.255.255.255"),  # noqa: S104 - an address to refuse
    "private A": ("10.0.0.0", "10.255.255.255"),
    "shared": ("100.64.0.0", "100.127.255.255"),
    "loopback": ("127.0.0.0", "127.255.255.255"),
    "link-local": ("169.254.0.0", "169.254.255.255"),
    "private B": ("172.16.0.0", "172.31.255.255"),
    "assignments": ("192.0.0.0", "192.0.0.255"),
    "documentation 1": ("192.0.2.0", "192.0.2.255"),
    "6to4 relays": ("192.88.99.0", "192.88.99.255"),
    "private C": ("192.168.0.0", "192.168.255.255"),
    "benchmarks": ("198.18.0.0", "198.19.255.255"),
    "documentation 2": ("198.51.100.0", "198.51.100.255"),
    "documentation 3": ("203.0.113.0", "203.0.113.255"),
    "multicast to broadcast": ("224.0.0.0", "255.255.255.255"),
}
CLOSED_6 = {
    "IPv4 inside, unspecified, loopback": ("::", "::ffff:ffff"),
    "discard": ("100::", "100::ffff:ffff:ffff:ffff"),
    "NAT64": ("64:ff9b::", "64:ff9b::ffff:ffff"),
    "local NAT64": ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
    "Teredo": ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff"),
    "benchmarks": ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff"),
    "ORCHID": ("2001:10::", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff"),
    "ORCHID 2": ("2001:20::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff"),
    "documentation": ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    "6to4": ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    "documentation 2": ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    "segment routing": ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    "unique local": ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    "link-local": ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    "site-local": ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    "multicast": ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
}
OPEN = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2000::",
    "2001:200::",
    "2001:4860:4860::8888",
    "2001:db7:ffff::",
    "2001:db9::",
    "2003::",
    "2606:2800:220:1:248:1893:25c8:1946",
    "3ffe::",
    "::ffff:8.8.8.8",
]
MANNERS_OF_NAT64 = ("64:ff9b::{}", "64:ff9b:1::{}", "::{}", "::ffff:{}", "::ffff:0:{}", "2001:4860::5efe:{}")
"""Ways to write an IPv4 address in the last 32 bits of an IPv6 one."""


@pytest.mark.parametrize("what", CLOSED_4)
def test_special_networks_of_ipv4(what: str) -> None:
    """The first and the last address of each network that is not for everybody."""
    assert [is_reachable(IPv4Address(end)) for end in CLOSED_4[what]] == [False, False]


@pytest.mark.parametrize("what", CLOSED_6)
def test_special_networks_of_ipv6(what: str) -> None:
    """Also those that the interpreter of some releases calls global."""
    assert [is_reachable(IPv6Address(end)) for end in CLOSED_6[what]] == [False, False]


@pytest.mark.parametrize("text", OPEN)
def test_public_addresses(text: str) -> None:
    """The neighbours of the special networks are public."""
    assert is_reachable(ip_address(text))


@pytest.mark.parametrize("manner", MANNERS_OF_NAT64)
@pytest.mark.parametrize("what", CLOSED_4)
def test_an_inner_ipv4_address_counts(manner: str, what: str) -> None:
    """Translated, mapped, compatible or tunnelled: no special IPv4 address is reached through IPv6."""
    for end in CLOSED_4[what]:
        assert not is_reachable(IPv6Address(manner.format(end)))


@pytest.mark.parametrize("what", CLOSED_4)
def test_6to4_and_teredo_hide_no_ipv4_address(what: str) -> None:
    """2002::/16 holds the address after its prefix, 2001::/32 its complement at the end."""
    for end in CLOSED_4[what]:
        number = int(IPv4Address(end))
        assert not is_reachable(IPv6Address(0x2002 << 112 | number << 80 | 1))
        assert not is_reachable(IPv6Address(0x2001_0000 << 96 | number ^ 0xFFFF_FFFF))


def test_the_host_of_a_cloud_is_no_receiver() -> None:
    """Metadata services and the address of the virtual machine's own host."""
    for text in ("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"):
        assert not is_reachable(ip_address(text))


def test_an_address_of_one_link_is_not_reachable() -> None:
    """An address with a zone belongs to a link, whatever its digits are."""
    assert not is_reachable(IPv6Address("2606:2800::1%eth0"))


@given(st.ip_addresses())
def test_nothing_that_the_interpreter_refuses_is_reachable(ip: IPv4Address | IPv6Address) -> None:
    """Our list is the stricter one."""
    if is_reachable(ip):
        inner = ip.ipv4_mapped if isinstance(ip, IPv6Address) and ip.ipv4_mapped else ip
        assert inner.is_global
        assert not inner.is_multicast


def test_loopback() -> None:
    """127.0.0.0/8 and ::1, also mapped; nothing else."""
    for text in ("127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"):
        assert is_loopback(ip_address(text))
    for text in ("126.255.255.255", "128.0.0.0", "::", "::2", "::ffff:10.0.0.1", "::127.0.0.1"):
        assert not is_loopback(ip_address(text))
