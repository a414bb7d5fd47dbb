"""Which IP addresses may be called: globally reachable unicast, by a list of our own (G-150).

The interpreter's `is_global` differs between its releases, and counts addresses as global although a router,
a translator or a tunnel leads them back inside: 64:ff9b::/96, 2002::/16, ::127.0.0.1, fec0::/10. So this list stands
here whole. It follows the special-purpose registries of IANA, and refuses also their few reachable networks.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

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
