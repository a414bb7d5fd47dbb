"""Layouts of messages: each holds to the published schema of its chat, and no text from elsewhere is active in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.webhooks.message import APART, LAYOUTS, MAX_MESSAGE_BYTES, ChatMessage, laid_out, plain
from service.webhooks.notifying import quiet_seconds
from statemachines.notifications import QuietHours
from tests.support import few_or_many
from tests.support.naughty.words import everything

SCHEMAS = Path(__file__).parents[2] / "foreign" / "chats"
CHATS = sorted(LAYOUTS.keys() - {"mail"})
LINK = "https://service.example/console/cases/case_1"
CHAT = (
    "<!here> <!channel> <!everyone> <@U012AB3CD> <#C123|general> <https://evil.example|click>",
    "@here @everyone @all @channel @someone ~town-square #general",
    "<@123456789012345678> <@&123> <#123> <a:smile:123> <t:1618953630:R> </help:1>",
    "[click](https://evil.example) ![x](https://evil.example/x.png) <https://evil.example>",
    "https://evil.example http://evil.example www.evil.example evil.example ftp://evil.example mailto:a@b.example",
    "**bold** *it* _it_ ~~gone~~ `code` ```block``` > quote # heading - list 1. list ||spoiler|| :smile: :+1:",
    "{{DATE(2017-02-14T06:08:39Z,SHORT)}} <at>Somebody</at> &lt;!here&gt; &#64;here",
    "a\u202eb\u2066c\u200bd\u0000e\r\n# heading\n> quote",
    "x" * 5_000,
    "\u200b\u200b",
    "",
)
_ACTIVE = re.compile(r"[@#~<>:&{./!|](?=[^\s" + APART + r"\\])")


def messages(text: str) -> list[ChatMessage]:
    facts = (("Errors", "3"), ("People", "1"))
    return [ChatMessage("New case", LINK, facts, title=text), ChatMessage("A runner asks", LINK, summary=text)]


def texts(value: Any) -> list[str]:
    """All texts of a document but its keys."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for member in value.values() for text in texts(member)]
    return [text for member in value for text in texts(member)] if isinstance(value, list) else []


def validator(kind: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text()))


def check(kind: str, text: str) -> None:
    """Lay out a text, and look for anything that the chat would act upon."""
    valid, ours = validator(kind), set(texts(msgspec.json.decode(laid_out(kind, ChatMessage("New case", LINK)))))
    for message in messages(text):
        body = laid_out(kind, message)
        assert len(body) <= MAX_MESSAGE_BYTES
        document = msgspec.json.decode(body)
        assert list(valid.iter_errors(document)) == []
        told = message.quoted(lambda found: found)
        for shown in texts(document):
            if shown in ours or shown in {message.heading, message.link, "Errors", "People", "3", "1"}:
                continue
            if shown == message.line:
                continue
            found = shown.removeprefix("Summary by the runner: ")
            assert not _ACTIVE.search(found), (kind, found)
            if kind in {"discord", "mattermost"}:
                found = re.sub(r"\\[^a-zA-Z0-9\s]", "", found)
                assert not re.search(r"[\\`*_{}\[\]()<>#+\-.!|~]", found), (kind, found)
        assert all(len(one) <= 1_100 for one in told)


@pytest.mark.parametrize("kind", CHATS)
def test_no_hostile_text_is_active(kind: str) -> None:
    for text in (*CHAT, *everything()):
        check(kind, text)


@few_or_many(100, 2_000)
@given(st.text(max_size=700))
def test_no_text_is_active(text: str) -> None:
    for kind in CHATS:
        check(kind, text)


def test_a_text_is_cut_and_shown_in_one_line() -> None:
    assert plain("a\nb\t c\u202e\u0000", 200) == "a b c"
    assert plain("x" * 300, 200) == "x" * 199 + "…"
    assert plain("TypeError: total is undefined", 200) == "TypeError: total is undefined"
    assert plain("@here", 200) == f"@{APART}here"


@pytest.mark.parametrize("kind", LAYOUTS)
def test_the_link_and_the_numbers_are_there(kind: str) -> None:
    body = laid_out(kind, messages("Boom")[0]).decode()
    assert LINK in body
    assert "Errors" in body
    assert "Boom" in body


NIGHT = QuietHours("22:00", "07:00", "Europe/Berlin")
NOON = QuietHours("12:00", "13:30", "UTC")
MIDNIGHT = 1_767_222_000  # 2026-01-01 00:00 in Berlin


@pytest.mark.parametrize(
    ("quiet", "now", "seconds"),
    [
        (None, MIDNIGHT, 0),
        (NIGHT, MIDNIGHT, 7 * 3600),
        (NIGHT, MIDNIGHT - 2 * 3600, 9 * 3600),
        (NIGHT, MIDNIGHT - 2 * 3600 - 1, 0),
        (NIGHT, MIDNIGHT + 7 * 3600, 0),
        (NIGHT, MIDNIGHT + 7 * 3600 - 1, 1),
        (NOON, MIDNIGHT + 13 * 3600, 5400),
        (NOON, MIDNIGHT + 13 * 3600 + 5400, 0),
    ],
)
def test_quiet_hours_last_until_their_end(quiet: QuietHours | None, now: int, seconds: int) -> None:
    assert quiet_seconds(quiet, now) == seconds
