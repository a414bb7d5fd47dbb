"""What browsers report on broken policies of security, over HTTP: cases, counts and refusals (G-142)."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx2
import pytest

from service.http.cases.intake.security import MEDIA
from tests.service.http.cases.test_kinds import Product
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

CSP = {
    "csp-report": {
        "document-uri": "https://shop.example/pay?token=s3cret#f",
        "violated-directive": "script-src-elem",
        "effective-directive": "script-src-elem",
        "blocked-uri": "https://evil.example/x.js",
        "disposition": "enforce",
    }
}


def reporting(blocked: str, **members: Any) -> dict[str, Any]:
    body = {"effectiveDirective": "img-src", "blockedURL": blocked, "disposition": "enforce"}
    return {"type": "csp-violation", "age": 5, "url": "https://shop.example/", "body": body, **members}


class Pages(Product):
    """A project whose pages report."""

    def __init__(self, world: World, owner: Any, made: dict[str, Any]) -> None:
        super().__init__(world, owner, made)
        self.alias, self.public = made["alias"], made["sdks_public"]["posthog_key"]

    async def report(
        self, body: Any, *, media: str = MEDIA[0], key: str | None = None, query: str = "", **headers: str
    ) -> httpx2.Response:
        """Report as a browser does, by the public key in the address."""
        path = f"/api/{self.alias}/security/?sentry_key={key or self.public}{query}"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"content-type": media, "user-agent": "Browser/1", **headers}
        return await self.world.call("POST", path, content=content, headers=head)

    async def cases(self) -> dict[str, int]:
        """The titles of its cases with their errors."""
        listed = ok(await self.owner.get(f"/v1/projects/{self.id}/cases"))["cases"]
        return {case["title"]: case["event_count"] for case in listed}


@pytest.fixture
async def pages(world: World) -> Pages:
    owner = await world.sign_in()
    return Pages(world, owner, await owner.create_project())


async def test_a_report_is_an_error_in_a_case_of_its_own(pages: Pages) -> None:
    """Whatever form a browser has, the same directive and origin are one case."""
    assert ok(await pages.report(CSP, query="&sentry_release=shop@1&sentry_environment=staging")) == {}
    same = {
        **CSP["csp-report"],
        "blocked-uri": "https://evil.example/other.js",
        "document-uri": "https://shop.example/",
    }
    ok(await pages.report({"csp-report": same}, media="application/json; charset=utf-8"))
    ok(await pages.report([reporting("https://evil.example/a.png"), reporting("inline")], media=MEDIA[-1]))
    assert await pages.cases() == {
        "Blocked 'script' from 'evil.example'": 2,
        "Blocked 'img' from 'evil.example'": 1,
        "Blocked inline 'img'": 1,
    }
    rows = await pages.world.sql(
        "select level, release, environment, extra::text, public from log_events where project_id = %s order by id",
        pages.id,
    )
    assert [row[0] for row in rows] == ["error"] * 4
    assert rows[0][1:3] == ("shop@1", "staging")
    assert all(row[4] for row in rows)
    assert "s3cret" not in str(rows)


async def test_an_error_shows_what_the_browser_said(pages: Pages) -> None:
    ok(await pages.report(CSP))
    [case] = ok(await pages.owner.get(f"/v1/projects/{pages.id}/cases"))["cases"]
    [listed] = ok(await pages.owner.get(f"/v1/cases/{case['id']}/events"))["events"]
    shown = ok(await pages.owner.get(f"/v1/cases/{case['id']}/events/{listed['id']}"))
    assert shown["contexts"]["csp"]["document-uri"] == "https://shop.example/pay"
    assert shown["logger"] == "csp"
    assert shown["request"]["headers"] == {"User-Agent": "Browser/1"}
    assert shown["dsn"] == "public"
    assert shown["tags"] == {"effective-directive": "script-src-elem", "blocked-uri": "https://evil.example"}


async def test_reports_on_certificates_are_cases(pages: Pages) -> None:
    ok(
        await pages.report(
            {"expect-ct-report": {"hostname": "shop.example"}}, media="application/expect-ct-report+json"
        )
    )
    ok(await pages.report({"expect-staple-report": {"hostname": "shop.example"}}, media=MEDIA[3]))
    ok(await pages.report({"hostname": "shop.example", "known-pins": []}, media="application/json"))
    assert await pages.cases() == {
        "Expect-CT failed for 'shop.example'": 1,
        "Expect-Staple failed for 'shop.example'": 1,
        "Public key pinning failed for 'shop.example'": 1,
    }


async def test_reports_that_are_no_errors_are_counted_by_name(pages: Pages) -> None:
    """Beside one that is: nothing is dropped silently, and one that is none costs no other."""
    sent = [
        reporting("chrome-extension://abc/x.js"),
        reporting("https://evil.example/a.png"),
        {"type": "network-error", "body": {}},
        {"type": "deprecation", "body": {}},
        {"type": "csp-violation", "body": {}},
        "no report",
    ]
    assert ok(await pages.report(sent, media=MEDIA[-1])) == {"refused": 2}
    assert await pages.cases() == {"Blocked 'img' from 'evil.example'": 1}
    assert await pages.not_kept(5) == {
        ("sentry", "extension_report", "not_kept"): 1,
        ("sentry", "nel", "not_kept"): 1,
        ("sentry", "other", "not_kept"): 1,
        ("sentry", "malformed_report", "refused"): 2,
    }


async def test_a_report_that_waited_has_its_own_time(pages: Pages) -> None:
    ok(await pages.report([reporting("https://evil.example/", age=3_600_000)], media=MEDIA[-1]))
    [[behind]] = await pages.world.sql(
        "select received_at - occurred_at from log_events where project_id = %s", pages.id
    )
    assert behind == 3600


async def test_who_is_refused(world: World, pages: Pages) -> None:
    """A wrong key, none, another project's: as at the other doors, and told in the words of Sentry."""
    other = Pages(world, pages.owner, await pages.owner.create_project("other"))
    for answer in (
        await pages.report(CSP, key="service_dsn_pub_nobody"),
        await pages.report(CSP, key=other.public),
        await world.call("POST", f"/api/{pages.alias}/security/", content=json.dumps(CSP).encode()),
        await world.call("POST", f"/api/{other.alias}/security/?sentry_key={pages.public}", content=b"{}"),
    ):
        refused(answer, 401, "unauthenticated")
        assert answer.headers["x-sentry-error"]
    assert await pages.cases() == await other.cases() == {}


@pytest.mark.parametrize(
    ("media", "body", "status", "code"),
    [
        ("text/plain", CSP, 415, "unsupported_media_type"),
        ("application/csp-report-x", CSP, 415, "unsupported_media_type"),
        ("multipart/form-data", CSP, 415, "unsupported_media_type"),
        ("", CSP, 415, "unsupported_media_type"),
        (MEDIA[0], b"", 400, "invalid_payload"),
        (MEDIA[0], b"{nope", 400, "invalid_payload"),
        (MEDIA[0], b'{"csp-report":{"effective-directive":"\xff"}}', 400, "invalid_payload"),
        (MEDIA[0], {}, 400, "invalid_payload"),
        (MEDIA[0], 17, 400, "invalid_payload"),
        (MEDIA[-1], b"[]", 400, "invalid_payload"),
        (MEDIA[-1], b"[" * 100_000, 400, "invalid_payload"),
        (MEDIA[-1], [{}] * 1001, 413, "payload_too_large"),
        (MEDIA[0], b" " * (1024 * 1024 + 1), 413, "payload_too_large"),
    ],
)
async def test_what_is_refused(pages: Pages, media: str, body: Any, status: int, code: str) -> None:
    answer = await pages.report(body, media=media)
    refused(answer, status, code)
    assert answer.headers["x-sentry-error"]
    assert await pages.world.telemetry(pages.id) == 0


async def test_a_packed_report_is_unpacked_within_the_bound(pages: Pages) -> None:
    packed = gzip.compress(json.dumps(CSP).encode())
    assert ok(await pages.report(packed, **{"content-encoding": "gzip"})) == {}
    refused(
        await pages.report(gzip.compress(b" " * 50_000_000), **{"content-encoding": "gzip"}), 413, "payload_too_large"
    )
    assert await pages.cases() == {"Blocked 'script' from 'evil.example'": 1}


async def test_what_is_odd_in_a_report_is_adjusted(pages: Pages) -> None:
    """A NUL, half an emoji and a wide number cost nobody the report (G-133)."""
    text = (
        b'{"csp-report":{"effective-directive":"img-src","blocked-uri":"https://evil.example",'
        b'"script-sample":"a\\u0000\\ud83c","line-number":12345678901234567890}}'
    )
    assert ok(await pages.report(text)) == {}
    assert await pages.cases() == {"Blocked 'img' from 'evil.example'": 1}


async def test_a_page_of_another_origin_may_report(pages: Pages) -> None:
    """Browsers ask first for application/reports+json."""
    asked = await pages.world.client.options(
        f"/api/{pages.alias}/security/?sentry_key={pages.public}", headers={"origin": "https://shop.example"}
    )
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "*")
    assert "content-type" in asked.headers["access-control-allow-headers"]
    answer = await pages.report(CSP, origin="https://shop.example")
    assert (ok(answer), answer.headers["access-control-allow-origin"]) == ({}, "*")
