"""What is read of reports on broken policies of security, and what is not kept of them (G-142)."""

from __future__ import annotations

from typing import Any

import pytest

from service.ingest.foreign.common import ForeignEvent
from service.ingest.foreign.feedback import OTHER
from service.ingest.foreign.security import EXTENSION, NETWORK, MalformedReport, ReportFacts, read_report
from service.ingest.outcomes import SdkClock


def csp(**members: Any) -> dict[str, Any]:
    """A report of the older form; names are spelt with underscores."""
    said = {"effective_directive": "script-src", "blocked_uri": "https://evil.example/x.js", **members}
    return {"csp-report": {name.replace("_", "-"): value for name, value in said.items()}}


def reporting(body: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A report of the Reporting API."""
    return {"type": "csp-violation", "url": "https://shop.example/pay?card=4", "body": body, **members}


def read(payload: Any) -> ForeignEvent:
    found = read_report(payload, ReportFacts())
    assert isinstance(found, ForeignEvent), found
    return found


@pytest.mark.parametrize(
    ("blocked", "title", "origin"),
    [
        ("https://evil.example/x.js?t=1#f", "Blocked 'script' from 'evil.example'", "https://evil.example"),
        ("http://user:word@Evil.Example:80/x", "Blocked 'script' from 'evil.example'", "http://evil.example"),
        ("https://evil.example:8443", "Blocked 'script' from 'evil.example:8443'", "https://evil.example:8443"),
        ("evil.example:8080/x", "Blocked 'script' from 'evil.example:8080'", "evil.example:8080"),
        ("wss://[::1]:443/socket", "Blocked 'script' from '[::1]'", "wss://[::1]"),
        ("blob:https://shop.example/17", "Blocked 'script' from 'shop.example'", "https://shop.example"),
        ("data", "Blocked 'script' from 'data:'", "data:"),
        ("data:text/javascript;base64,AAAA", "Blocked 'script' from 'data:'", "data:"),
        ("inline", "Blocked inline 'script'", "inline"),
        ("eval", "Blocked eval 'script'", "eval"),
        ("", "Blocked inline 'script'", "inline"),
        (None, "Blocked inline 'script'", "inline"),
        (17, "Blocked inline 'script'", "inline"),
        ("https://", "Blocked 'script' from 'an unreadable address'", "an unreadable address"),
        ("https://a{{ default }}/", "Blocked 'script' from 'an unreadable address'", "an unreadable address"),
        ("not an address", "Blocked 'script' from 'an unreadable address'", "an unreadable address"),
    ],
)
def test_a_report_is_named_and_known_by_directive_and_origin(blocked: Any, title: str, origin: str) -> None:
    found = read(csp(blocked_uri=blocked))
    assert (found.message, tuple(found.fingerprint)) == (title, ("csp", "script-src", origin))
    assert (found.level, found.errors) == ("error", ())


@pytest.mark.parametrize(
    ("members", "title"),
    [
        ({"effective_directive": None, "violated_directive": "img-src 'self' data:"}, "'img' from 'evil.example'"),
        ({"effective_directive": "Style-Src-Elem"}, "'style' from 'evil.example'"),
        ({"effective_directive": "frame-ancestors", "blocked_uri": ""}, "'frame-ancestors' from 'self'"),
        ({"effective_directive": "form-action"}, "'form-action' from 'evil.example'"),
    ],
)
def test_a_directive_may_be_of_any_browser(members: dict[str, Any], title: str) -> None:
    assert read(csp(**members)).message == f"Blocked {title}"


def test_a_policy_that_only_reports_has_blocked_nothing() -> None:
    found = read(csp(disposition="report"))
    assert found.message == "Would block 'script' from 'evil.example'"
    assert found.fingerprint == read(csp(disposition="enforce")).fingerprint


def test_addresses_are_kept_without_query_fragment_and_credentials() -> None:
    secret = "https://u:word@shop.example/pay?token=word#word"
    members = dict.fromkeys(("document_uri", "referrer", "source_file", "blocked_uri"), secret)
    found = read(csp(**members))
    kept = found.more["contexts"]["csp"]
    assert {kept[name.replace("_", "-")] for name in members} == {"https://shop.example/pay"}
    assert found.more["request"] == {"url": "https://shop.example/pay", "referrer": "https://shop.example/pay"}
    assert "word" not in repr(found)


def test_the_reporting_api_says_the_same_in_other_words() -> None:
    body = {
        "effectiveDirective": "script-src-elem",
        "blockedURL": "https://evil.example/x.js",
        "disposition": "enforce",
        "lineNumber": 12,
        "statusCode": 200,
        "sample": "alert(1)" * 100,
        "originalPolicy": "default-src 'none'; " * 1000,
    }
    found = read(reporting(body, age=90_000, user_agent="Browser/1"))
    assert found.message == "Blocked 'script' from 'evil.example'"
    assert found.clock == SdkClock(-90, 0)
    kept = found.more["contexts"]["csp"]
    assert (kept["line-number"], kept["status-code"], kept["document-uri"]) == (12, 200, "https://shop.example/pay")
    assert len(kept["original-policy"]) == 4096
    assert len(kept["script-sample"]) == 256
    assert found.more["request"]["headers"] == {"User-Agent": "Browser/1"}


@pytest.mark.parametrize("age", [None, -1, "9", True, 1e300, float("inf"), 31 * 86400 * 1000])
def test_an_impossible_age_says_nothing(age: Any) -> None:
    assert read(reporting({"effectiveDirective": "img-src"}, age=age)).clock == SdkClock()


@pytest.mark.parametrize(
    ("payload", "title", "kind"),
    [
        ({"expect-ct-report": {"hostname": "shop.example"}}, "Expect-CT failed for 'shop.example'", "expect-ct"),
        (
            {"expect-staple-report": {"hostname": "Shop.Example", "port": 443}},
            "Expect-Staple failed for 'shop.example'",
            "expect-staple",
        ),
        (
            {"hostname": "shop.example", "known-pins": ['pin-sha256="AAAA"']},
            "Public key pinning failed for 'shop.example'",
            "hpkp",
        ),
    ],
)
def test_reports_on_certificates_are_known_by_their_host(payload: Any, title: str, kind: str) -> None:
    found = read(payload)
    assert (found.message, tuple(found.fingerprint)) == (title, (kind, "shop.example"))


def test_certificates_are_counted_and_not_kept() -> None:
    chain = ["-----BEGIN CERTIFICATE-----"] * 3
    report = {"hostname": "shop.example", "served-certificate-chain": chain, "date-time": "2026-11-28T10:00:00Z"}
    found = read({"expect-ct-report": report})
    assert found.more["contexts"]["expect-ct"]["served-certificate-chain-length"] == 3
    assert "CERTIFICATE" not in repr(found)
    assert found.clock.happened == 1795860000


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (csp(blocked_uri="chrome-extension://abcdef/x.js"), EXTENSION),
        (csp(blocked_uri="moz-extension"), EXTENSION),
        (csp(blocked_uri="inline", source_file="safari-web-extension://1/x.js"), EXTENSION),
        (csp(blocked_uri="blob:chrome-extension://abc"), EXTENSION),
        (reporting({}, type="network-error"), NETWORK),
        (reporting({}, type="deprecation"), OTHER),
        (reporting({}, type="x" * 10_000), OTHER),
    ],
)
def test_what_no_product_can_mend_is_named_and_counted(payload: Any, kind: str) -> None:
    assert read_report(payload, ReportFacts()) == kind


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        "text",
        {},
        {"csp-report": []},
        {"csp-report": {}},
        csp(effective_directive="script_src!"),
        csp(effective_directive="a" * 100),
        csp(effective_directive=["script-src"]),
        {"expect-ct-report": {}},
        {"expect-ct-report": {"hostname": "two hosts"}},
        {"known-pins": []},
        {"type": "csp-violation"},
        {"type": "csp-violation", "body": []},
        {"type": 7, "body": {}},
    ],
)
def test_what_is_no_report_is_refused(payload: Any) -> None:
    with pytest.raises(MalformedReport):
        read_report(payload, ReportFacts())
