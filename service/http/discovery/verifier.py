"""The page that verifies an export or the proof of a run in the browser, with a policy for its one script (G-166).

It is the same file as `scripts/verify.html`. Nothing is filled in, so an auditor can compare the two.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from service.discovery.manifest import Text, as_text
from service.discovery.pages import ROOT
from service.eventstore.declare.commands import Outcome
from service.http.answer.page import HTML
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.discovery.guides import PUBLIC, serve

VERIFY = f"{ROOT}/verify"


class _Verifier(NamedTuple):
    text: Text
    headers: Mapping[str, str]


@groups.DISCOVERY.get(VERIFY, "Open the page that verifies exports and proofs in the browser")
@Who(PUBLIC)
@Docs({200: str, 304: None}, extension=True, content_type=HTML)
async def get_docs_verifier(call: Call) -> Outcome:
    """Serve the page as it is. It asks for nothing else, from here or from anywhere."""
    found = _verifier()
    outcome = serve(call, found.text, HTML)
    return Outcome(outcome.status, outcome.body, {**outcome.headers, **found.headers})


@cache
def _verifier() -> _Verifier:
    body = resources.files("service.discovery").joinpath("texts", "pages", "verify.html").read_bytes()
    script, style = (_hash_of(name, body) for name in (b"script", b"style"))
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "cross-origin-opener-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }
    return _Verifier(as_text(body), headers)


def _hash_of(name: bytes, body: bytes) -> str:
    """The hash of the one element of a name, as a policy writes it."""
    [found] = re.findall(rb"<%b>(.*?)</%b>" % (name, name), body, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(found).digest()).decode()}'"


ENDPOINTS = [get_docs_verifier]
