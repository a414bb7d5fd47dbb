"""The page that verifies in the browser, in a headless Chromium: it says what scripts/verify_proof.py says, offline."""

from __future__ import annotations

import html
import io
import json
import random
import re
from pathlib import Path

import pytest

from scripts import verify_proof
from tests.foreign.chromium import show
from tests.scripts.test_verify_page import PAGE, policy_of, sha256_of
from tests.support.outsiders.logs import make_log
from tests.support.outsiders.signing import signer
from tests.support.outsiders.tampering import TAMPERS

pytestmark = [pytest.mark.clients, pytest.mark.foreign]

KEY, OTHER = signer(1), signer(1, seed=1)
LOG = make_log(40, seed=4)
NOTE = LOG.checkpoint(KEY, size=30)


def script_says(data: bytes, note: bytes, vkey: str) -> str:
    """What the script says: its first word, and the position."""
    try:
        policy = verify_proof.Policy(logs=[verify_proof.read_key(vkey)], every=True)
        checkpoints = [verify_proof.read_checkpoint(note, policy, "it")] if note else []
        verify_proof.check_export(io.BytesIO(data), checkpoints)
    except verify_proof.Wrong as error:
        return "WRONG" if error.position is None else f"WRONG {error.position}"
    return "OK" if note else "HEADS NOT AUTHENTICATED"


def cases() -> list[tuple[str, str, str]]:
    """Files, keys and checkpoints: right ones, forged ones, and odd lines."""
    chance, export = random.Random(4), LOG.export()
    files = [export, b"".join(list(LOG.lines())[:20]), export[:-1]]
    for tamper in TAMPERS:
        files += [tamper(LOG, chance)[0] for _ in range(4)]
    lines = list(LOG.lines())
    for odd in (
        b"{}",
        b"null",
        b'{"a":1,"a":1}',
        b'{"a":1.5}',
        b'{"a":9007199254740993}',
        b'{"a":"\\ud800"}',
        b"[" * 9_000,
    ):
        files.append(b"".join([*lines[:3], odd + b"\n", *lines[4:]]))
    texts = []
    for data in files:
        try:
            texts.append(data.decode())
        except UnicodeDecodeError:
            continue  # The page reads text alone, and says so.
    made = [(text, KEY.vkey, NOTE.decode()) for text in texts]
    made += [(texts[0], KEY.vkey, ""), (texts[0], OTHER.vkey, NOTE.decode())]
    return [*made, (texts[0], KEY.vkey, NOTE.decode().replace("\n30\n", "\n31\n"))]


def test_the_page_says_what_the_script_says(tmp_path: Path) -> None:
    """The page itself, with a second script beside it that hands it one file after another."""
    tried = cases()
    given = json.dumps(tried).replace("<", "\\u003c")
    more = (
        f"(async () => {{ const out = []; for (const one of {given}) out.push(await verify(...one)); "
        'document.getElementById("result").textContent = JSON.stringify(out); })();'
    )
    text = PAGE.read_text().replace("script-src '", f"script-src '{sha256_of(more)}' '")
    page = tmp_path / "page.html"
    page.write_text(text.replace("</html>", f"<script>{more}</script>\n</html>"))
    shown = show(tmp_path / "browser", page.as_uri(), "--virtual-time-budget=60000")
    assert shown.blocked == []
    assert {url for url in shown.requests if not url.startswith("file:")} == set()
    found = re.search(r'<output id="result">(.*?)</output>', shown.document, re.DOTALL)
    assert found is not None
    said = json.loads(html.unescape(found[1]))
    for (file, vkey, note), words in zip(tried, said, strict=True):
        match = re.match(r"(WRONG)(?:: position (\d+):)?|(OK|HEADS NOT AUTHENTICATED)", words)
        assert match is not None, words
        told = match[3] or " ".join(filter(None, match.groups()[:2]))
        assert told == script_says(file.encode(), note.encode(), vkey), (words, file[:80])
    assert len(said) > 50


def test_policy_of_the_page_lets_nothing_in(tmp_path: Path) -> None:
    """A script that the policy does not name is blocked, so the page could not send anything if it tried."""
    page = tmp_path / "page.html"
    page.write_text(PAGE.read_text().replace("</html>", "<script>fetch('http://127.0.0.2:9/')</script></html>"))
    assert show(tmp_path / "browser", page.as_uri()).blocked
    assert policy_of(PAGE.read_text()).startswith("default-src 'none'; script-src 'sha256-")
