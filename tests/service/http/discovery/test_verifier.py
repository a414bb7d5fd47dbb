"""The page that verifies in the browser, as the service serves it: the bytes of the script's folder, and a policy."""

from __future__ import annotations

from pathlib import Path

import httpx2

from scripts import verify_proof
from tests.scripts.test_verify_page import policy_of
from tests.service.http.document.test_openapi import api as api  # noqa: PLC0414 (a fixture is found by name)

PAGE = Path(verify_proof.__file__).with_name("verify.html")


async def test_anybody_gets_the_page_that_auditors_have(api: httpx2.AsyncClient) -> None:
    answer = await api.get("/docs/verify")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.content == PAGE.read_bytes()
    again = await api.get("/docs/verify", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert (await api.head("/docs/verify")).content == b""
    assert (await api.post("/docs/verify")).status_code == 405


async def test_its_policy_is_that_of_the_page_and_lets_nobody_frame_it(api: httpx2.AsyncClient) -> None:
    answer = await api.get("/docs/verify")
    policy = answer.headers["content-security-policy"]
    assert policy == f"{policy_of(answer.text)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
