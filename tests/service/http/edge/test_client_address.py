"""Limits by address count clients, not their proxies, and nobody can choose whom he is counted as (G-012)."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from service.http.edge.origin import client_address
from service.settingvalues import rate_limits
from tests.service.http.edge.toy_api import serving

PROXIES = tuple(map(ip_network, ("10.0.0.0/8", "2001:db8:ffff::/48")))
FOR, FORWARDED = "x-forwarded-for", "forwarded"


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("192.0.2.1", {}, "192.0.2.1"),
        ("192.0.2.1", {FOR: "198.51.100.7"}, "192.0.2.1"),  # no proxy of ours: anybody can write that
        ("10.0.0.1", {}, "10.0.0.1"),
        ("10.0.0.1", {FOR: "198.51.100.7"}, "198.51.100.7"),
        (
            "10.0.0.1",
            {FOR: "203.0.113.9, 198.51.100.7"},
            "198.51.100.7",
        ),  # what stands to the left was sent by the client
        ("10.0.0.1", {FOR: "203.0.113.9, 198.51.100.7, 10.0.0.2"}, "198.51.100.7"),
        ("10.0.0.1", {FOR: "10.9.9.9,10.0.0.2"}, "10.9.9.9"),
        ("10.0.0.1", {FOR: "198.51.100.7:4711"}, "198.51.100.7"),
        ("10.0.0.1", {FOR: "unknown, 10.0.0.2"}, "10.0.0.2"),
        ("10.0.0.1", {FOR: ""}, "10.0.0.1"),
        ("10.0.0.1", {FOR: "198.51.100.7 203.0.113.9"}, "10.0.0.1"),
        ("::ffff:10.0.0.1", {FOR: "::ffff:198.51.100.7"}, "198.51.100.7"),
        ("2001:db8:ffff::1", {FOR: "2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"),
        ("2001:db8:1:2:3:4:5:6", {}, "2001:db8:1:2::/64"),
        ("2001:db8:1:2:9::1", {FOR: "198.51.100.7"}, "2001:db8:1:2::/64"),
        ("10.0.0.1", {FORWARDED: "for=198.51.100.7;proto=https;by=10.0.0.1"}, "198.51.100.7"),
        ("10.0.0.1", {FORWARDED: 'for=203.0.113.9, proto=https; For="[2001:db8:1:2::7]:443"'}, "2001:db8:1:2::/64"),
        ("10.0.0.1", {FORWARDED: 'for=203.0.113.9;by="_a,for=192.0.2.77"'}, "203.0.113.9"),  # a comma in quotes
        ("10.0.0.1", {FORWARDED: 'by="x;for=192.0.2.77";for=203.0.113.9'}, "203.0.113.9"),
        ("10.0.0.1", {FORWARDED: r'by="a\",for=192.0.2.77";for="203.0.113.\9:80"'}, "203.0.113.9"),
        ("10.0.0.1", {FORWARDED: ' , ,for="198.51.100.7" ; proto = https ;, for=10.0.0.2'}, "198.51.100.7"),
        ("10.0.0.1", {FORWARDED: 'for="203.0.113.9, for=198.51.100.7'}, "10.0.0.1"),  # a quote without an end
        ("10.0.0.1", {FORWARDED: 'for="203.0.113.9"x, for=198.51.100.7'}, "10.0.0.1"),
        ("10.0.0.1", {FORWARDED: "for=203.0.113.9;for=198.51.100.7"}, "10.0.0.1"),
        ("10.0.0.1", {FORWARDED: 'for="[2001:db8:1:2::7]"'}, "2001:db8:1:2::/64"),
        ("10.0.0.1", {FORWARDED: "for=_hidden"}, "10.0.0.1"),
        ("10.0.0.1", {FORWARDED: "proto=https"}, "10.0.0.1"),
        ("10.0.0.1", {FOR: "198.51.100.7", FORWARDED: "for=198.51.100.7"}, "198.51.100.7"),
        ("10.0.0.1", {FOR: "198.51.100.7", FORWARDED: "for=203.0.113.9"}, "10.0.0.1"),  # one of them is made up
        ("", {FOR: "198.51.100.7"}, ""),
    ],
)
def test_the_rightmost_address_that_is_no_proxy_counts(peer: str, headers: dict[str, str], client: str) -> None:
    assert client_address(peer, headers, PROXIES) == client


def test_nobody_is_believed_by_default() -> None:
    assert client_address("10.0.0.1", {FOR: "198.51.100.7"}, ()) == "10.0.0.1"
    assert client_address("2001:db8:1:2::1", {FOR: "198.51.100.7"}, ()) == "2001:db8:1:2::/64"


async def test_clients_behind_a_proxy_have_limits_of_their_own() -> None:
    """The eleventh start of one client is refused, the first of another is not; without the setting both are one."""
    for trusted, last in ((tuple(map(ip_network, ("127.0.0.0/8",))), 200), (None, 429)):
        async with serving(rate_limits=rate_limits("on"), trusted_proxies=trusted) as toy:
            sent = [
                (await toy.post("/v1/raw", headers={"x-forwarded-for": "198.51.100.7"})).status_code for _ in range(11)
            ]
            assert sent == [200] * 10 + [429]
            other = await toy.post("/v1/raw", headers={"x-forwarded-for": "198.51.100.8"})
            assert other.status_code == last
