"""Whose pages may call an operation that agents use (G-168)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.refusals import Refusal
from service.http.edge.origin import check_origin

BASE = "https://service.example.com"


def is_taken(headers: dict[str, str], base_url: str = BASE) -> bool:
    try:
        check_origin(headers, base_url)
    except Refusal as refused:
        return refused.code != "origin_not_allowed"
    return True


@pytest.mark.parametrize(
    ("host", "origin", "base_url", "taken"),
    [
        ("service.example.com", None, BASE, True),
        ("service.example.com", BASE, BASE, True),
        ("service.example.com", f"{BASE}:443", BASE, True),
        ("service.example.com", "http://service.example.com", BASE, False),
        ("service.example.com", f"{BASE}:8443", BASE, False),
        ("service.example.com", f"{BASE}/path", BASE, False),
        ("service.example.com", "https://user@service.example.com", BASE, False),
        ("service.example.com", "https://evil.example.com", BASE, False),
        ("service.example.com", "null", BASE, False),
        ("service.example.com", "", BASE, False),
        ("evil.example.com", None, BASE, False),
        ("evil.example.com", "http://evil.example.com", BASE, False),
        ("", None, BASE, False),
        ("10.0.0.7:8080", None, BASE, True),
        ("[::1]:8080", None, BASE, True),
        ("localhost:8080", "http://localhost:8080", BASE, True),
        ("localhost:8080", "http://localhost:3000", BASE, False),
        ("127.0.0.1:8080", "http://localhost:8080", "http://localhost:8080", True),
        ("10.0.0.7:8080", "http://10.0.0.7:8080", BASE, False),
        ("service.example.com:99999", None, BASE, False),
    ],
)
def test_whose_pages_may_call(host: str, origin: str | None, base_url: str, *, taken: bool) -> None:
    """Our own, and those of a loopback address by which the request came."""
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    assert is_taken(headers, base_url) is taken


@pytest.mark.parametrize(
    ("site", "taken"), [("same-origin", True), ("none", True), ("cross-site", False), ("same-site", False)]
)
def test_a_browser_tells_the_site_without_an_origin(site: str, *, taken: bool) -> None:
    assert is_taken({"host": "service.example.com", "sec-fetch-site": site}) is taken
    assert is_taken({"host": "service.example.com", "sec-fetch-site": site, "origin": BASE}) is taken


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_judged(host: str, origin: str) -> None:
    """And no other origin passes by its form."""
    assert not is_taken({"host": "service.example.com", "origin": origin}) or origin.lower() == BASE
    is_taken({"host": host})
