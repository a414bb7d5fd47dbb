"""The page that verifies in the browser: one file, and a policy that names its script and its style alone.

tests/foreign/test_verify_page.py shows it in a browser.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from scripts import verify_proof

PAGE = Path(verify_proof.__file__).with_name("verify.html")


def sha256_of(text: str) -> str:
    """A hash as a content security policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def policy_of(text: str) -> str:
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', text)
    return str(policy)


def test_the_policy_names_script_and_style_and_nothing_else():
    text = PAGE.read_text()
    [script], [style] = (re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL) for name in ("script", "style"))
    assert policy_of(text) == f"default-src 'none'; script-src '{sha256_of(script)}'; style-src '{sha256_of(style)}'"


def test_the_page_names_no_address_and_says_what_it_leaves_out():
    text = PAGE.read_text()
    assert not re.search(r"https?:|src=|href=|import\(|fetch|XMLHttp|eval", text)
    for left_out in ("ML-DSA-44", "witnesses", "forks", "tiles", ".tlog-proof"):
        assert left_out in text
