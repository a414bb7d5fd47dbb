"""The form of an address that a caller names, by hand, at random, and by the vectors of browsers (G-150)."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.egress.exchange import MAX_URL, AddressRefused, Target, take_apart
from service.egress.guard import CALLERS, CLOSED_PORTS, DEVELOPMENT, OPERATOR, Reach

VECTORS = Path(__file__).parents[2] / "foreign" / "wpt" / "urltestdata.json"


def fault(url: str, reach: Reach = CALLERS) -> str | None:
    """Why an address is refused by its form; None when it is not."""
    try:
        reach.check_form(take_apart(url))
    except AddressRefused as refused:
        return str(refused)
    return None


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", Target(True, "example.com", None, 443, "/")),
        ("HTTPS://Example.COM:443/A?b=%20c", Target(True, "example.com", None, 443, "/A?b=%20c")),
        ("https://example.com?q", Target(True, "example.com", None, 443, "/?q")),
        ("https://example.com:8443/ä", Target(True, "example.com", None, 8443, "/%C3%A4")),
        ("https://a_b.example/@[", Target(True, "a_b.example", None, 443, "/@[")),
        ("https://bücher.example/", Target(True, "xn--bcher-kva.example", None, 443, "/")),
        ("https://faß。example/", Target(True, "xn--fa-hia.example", None, 443, "/")),
        ("https://8.8.8.8/", Target(True, "8.8.8.8", IPv4Address("8.8.8.8"), 443, "/")),
        ("https://８.８.８.８/", Target(True, "8.8.8.8", IPv4Address("8.8.8.8"), 443, "/")),
        (
            "https://[2001:4860:4860:0::8888]:8443/",
            Target(True, "2001:4860:4860::8888", IPv6Address("2001:4860:4860::8888"), 8443, "/"),
        ),
    ],
)
def test_what_an_address_says(url: str, target: Target) -> None:
    """Host in ASCII and lower case, path as it was written."""
    assert take_apart(url) == target
    assert fault(url) is None


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://example.com/", "example.com"),
        ("https://example.com:443/", "example.com"),
        ("https://example.com:80/", "example.com:80"),
        ("http://example.com:80/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("https://[::1]/", "[::1]"),
        ("https://[::1]:8443/", "[::1]:8443"),
    ],
)
def test_what_the_host_header_says(url: str, authority: str) -> None:
    """The port only where it is not the scheme's own, an IPv6 address in its brackets."""
    assert take_apart(url).authority == authority


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "https"),
        ("example.com", "https"),
        ("//example.com", "https"),
        ("https:example.com", "https"),
        ("ftp://example.com", "https"),
        ("file:///etc/passwd", "https"),
        ("http://example.com", "https"),
        ("httpſ://example.com", "https"),
        ("https://", "a host"),
        ("https:///x", "a host"),
        ("https://:8443", "a host"),
        ("https://example.com:", "a host"),
        ("https://example.com:https", "a host"),
        ("https://example.com:４４３", "a host"),
        ("https://example.com:123456", "a host"),
        ("https://a:b:8443", "a host"),
        ("https://user@example.com", "user information"),
        ("https://user:pass@example.com", "user information"),
        ("https://@example.com", "user information"),
        ("https://example.com#", "fragment"),
        ("https://example.com/#a", "fragment"),
        ("https:\\\\example.com", "backslashes"),
        ("https://example.com\\@evil.example", "backslashes"),
        ("https://example.com/a b", "blanks"),
        (" https://example.com", "blanks"),
        ("https://example.com\n", "control"),
        ("https://exa\tmple.com", "control"),
        ("https://example.com/\x00", "control"),
        ("https://example.com/\x7f", "control"),
        ("https://example.com/\u00a0", "blanks"),
        ("https://example.com/\u202e", "control"),
        ("https://example.com/\ud800", "control"),
        ("https://ex%61mple.com", "labels"),
        ("https://exa*mple.com", "labels"),
        ("https://example..com", "labels"),
        ("https://.example.com", "labels"),
        ("https://example.com.", "labels"),
        (f"https://{'a' * 64}.com", "labels"),
        (f"https://{'a.' * 126}com", "labels"),
        ("https://xn--a.example", "labels"),
        ("https://[::1", "a host"),
        ("https://::1]", "a host"),
        ("https://[[::1]]", "a host"),
        ("https://[::1]x", "a host"),
        ("https://[fe80::1%25eth0]", "a host"),
        ("https://[]", "a host"),
        ("https://[1.2.3.4]", "IPv6"),
        ("https://[::1::2]", "IPv6"),
        ("https://example.com:0", "port"),
        ("https://example.com:65536", "port"),
        ("https://256.1.1.1", "four decimal"),
        ("https://0x7f000001", "four decimal"),
        ("https://0x7f.0.0.1", "four decimal"),
        ("https://0X7F.1", "four decimal"),
        ("https://0x", "four decimal"),
        ("https://2130706433", "four decimal"),
        ("https://017700000001", "four decimal"),
        ("https://0177.0.0.1", "four decimal"),
        ("https://127.1", "four decimal"),
        ("https://127.0.0.01", "four decimal"),
        ("https://1.2.3.4.5", "four decimal"),
        ("https://example.7", "four decimal"),
        ("https://０x７f.1", "four decimal"),
        ("https://１２７.１", "four decimal"),
        ("https://１２７.０.０.１", "public"),
        ("https://①②⑦.⓪.⓪.①", "public"),
        ("https://127.0.0.1", "public"),
        ("https://[::127.0.0.1]", "public"),
        ("https://[::ffff:127.0.0.1]", "public"),
        ("https://[64:ff9b::127.0.0.1]", "public"),
        ("https://[2002:7f00:1::]", "public"),
        ("https://[fec0::1]", "public"),
        (f"https://example.com/{'a' * MAX_URL}", "2000"),
    ],
)
def test_what_is_refused(url: str, words: str) -> None:
    """Each with a sentence of ours that says what the address must be."""
    told = fault(url)
    assert told is not None
    assert told.startswith("must ")
    assert words in told


def test_the_longest_address() -> None:
    """2000 characters are accepted, one more is not."""
    longest = "https://example.com/".ljust(MAX_URL, "a")
    assert fault(longest) is None
    assert fault(longest + "a") is not None


@pytest.mark.parametrize("port", [443, 1024, 8443, 65535])
def test_ports(port: int) -> None:
    """443, and those at which anybody may listen."""
    assert fault(f"https://example.com:{port}") is None


@pytest.mark.parametrize("port", [1, 22, 25, 80, 444, 1023, *sorted(CLOSED_PORTS)])
def test_ports_of_others(port: int) -> None:
    """Neither services of the system nor databases, but where the operator lifts that."""
    assert fault(f"https://example.com:{port}") == "must have port 443, or one from 1024 on that is no database's"
    assert fault(f"https://example.com:{port}", DEVELOPMENT) is None
    assert fault(f"https://example.com:{port}", OPERATOR) is None


@pytest.mark.parametrize(
    ("url", "development", "operator"),
    [
        ("http://127.0.0.1:9000/", None, None),
        ("https://127.0.0.1:9/", None, None),
        ("http://[::1]:9/", None, None),
        ("https://10.0.0.1/", None, None),
        ("http://localhost:9000/", None, None),  # a look-up decides
        ("http://10.0.0.1/", "must begin with https://, unless it leads to loopback", None),
        ("http://8.8.8.8/", "must begin with https://, unless it leads to loopback", None),
        (
            "http://2130706433/",
            "must write an IPv4 address as four decimal numbers",
            "must write an IPv4 address as four decimal numbers",
        ),
        ("http://u@127.0.0.1/", "must not hold user information", "must not hold user information"),
    ],
)
def test_what_is_lifted(url: str, development: str | None, operator: str | None) -> None:
    """Addresses and ports, and http to loopback; the operator's own hosts also speak http. The form stays."""
    assert (fault(url, DEVELOPMENT), fault(url, OPERATOR)) == (development, operator)


URLISH = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "https://",
                "http://",
                "//",
                "/",
                ":",
                "@",
                "#",
                "?",
                "[",
                "]",
                "::",
                ".",
                "%",
                "\\",
                "xn--",
                "0x",
                "ſ",
                "。",
            ]
        ),
        st.integers(0, 99999).map(str),
        st.text(max_size=6),
    ),
    max_size=12,
).map("".join)


@given(st.one_of(st.text(), URLISH, URLISH.map("https://".__add__)))
@example("https://xn--" + "9" * 60)
@example("https://[::ffff:1.2.3.4]")
@example("https://İ.example")
def test_any_text_is_refused_or_taken_apart(url: str) -> None:
    """Nothing but AddressRefused comes out, and what is accepted is fit for a request and a look-up."""
    told = fault(url, OPERATOR)
    if told is not None:
        assert told.startswith("must ")
        return
    target = take_apart(url)
    assert target.host.isascii()
    assert target.host == target.host.lower()
    assert 1 <= target.port <= 65535
    assert target.path.startswith("/")
    assert target.path.isascii()
    assert target.path.isprintable()
    assert " " not in target.path
    assert (target.ip is None) == (not _is_literal(target.host))


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def vectors() -> list[dict[str, Any]]:
    """The cases of the URL Standard's tests, those for http and https as https too."""
    cases = [case for case in json.loads(VECTORS.read_text(encoding="utf-8")) if isinstance(case, dict)]
    secure = [
        case | {"input": "https" + case["input"][4:], "renamed": True}
        for case in cases
        if case["input"].lower().startswith("http:")
    ]
    return cases + secure


def test_the_vectors_of_browsers() -> None:
    """What they refuse is refused, and what is accepted has the host and the port that they see."""
    accepted = 0
    for case in vectors():
        try:
            target = take_apart(case["input"])
        except AddressRefused:
            continue
        assert not case.get("failure"), case["input"]
        accepted += 1
        host = case["hostname"]
        if host.startswith("["):
            assert target.ip == IPv6Address(host[1:-1]), case["input"]
        else:
            assert target.host == host, case["input"]
        if not case.get("renamed"):
            default = 443 if case["protocol"] == "https:" else 80
            assert target.port == int(case["port"] or default), case["input"]
            assert case["href"].startswith(f"{case['protocol']}//{target.authority}"), case["input"]
    assert accepted >= 100, "the vectors try what is accepted too"
