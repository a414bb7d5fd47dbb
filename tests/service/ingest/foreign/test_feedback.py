"""What SDKs send of what people wrote, as it is read: each member where it is of its type, and each text bounded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ingest.foreign.feedback import (
    FEEDBACK,
    LEAST_OF_TEXT,
    MAX_BYTES,
    SOURCES,
    USER_REPORT,
    MalformedFeedback,
    to_row,
)
from service.ingest.scrubbing import Scrubber

SCRUBBER = Scrubber()
ID, OTHER_ID = "0123456789abcdef0123456789abcdef", "f" * 32
TEXTS = ("message", "name", "email", "url", "user_id", "release", "environment")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(ID),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
LONG = st.text(max_size=30).flatmap(lambda text: st.integers(0, 400).map(lambda times: text * times))


def newer(**context: Any) -> dict[str, Any]:
    return {"event_id": ID, "contexts": {"feedback": {"message": "It broke.", **context}}}


def read(source: str, payload: dict[str, Any], envelope_id: str | None = None) -> Any:
    return to_row(source, payload, envelope_id, SCRUBBER)[0]


@pytest.mark.parametrize(
    ("payload", "user_id", "email", "name"),
    [
        # sentry-javascript
        (newer(contact_email="ann@x.y", name="Ann", source="widget", replay_id="1"), "ann@x.y", "ann@x.y", "Ann"),
        # sentry-cocoa, of a person that the app has told of
        ({**newer(name=""), "user": {"id": "u7", "email": "u7@x.y", "username": "seven"}}, "u7", "u7@x.y", "seven"),
        # sentry-dotnet, with the address of the client alone
        ({**newer(), "user": {"ip_address": "{{auto}}"}}, None, None, None),
        ({**newer(contact_email="[Filtered]", name="undefined"), "user": {"id": "undefined"}}, None, None, None),
        ({**newer(contact_email=7, name=["x"]), "user": "somebody"}, None, None, None),
    ],
)
def test_who_wrote_it(payload: dict[str, Any], user_id: str | None, email: str | None, name: str | None) -> None:
    row = read(FEEDBACK, payload)
    assert (row.user_id, row.email, row.name) == (user_id, email, name)


def test_what_it_is_about() -> None:
    """The older form names its error, if only by the envelope. The newer one has an id of its own."""
    assert read(FEEDBACK, newer()).event_key is None
    assert read(FEEDBACK, newer(), OTHER_ID).event_key is None
    assert read(FEEDBACK, newer(associated_event_id=OTHER_ID.upper())).event_key == OTHER_ID
    assert read(USER_REPORT, {"comments": "x", "event_id": ID}, OTHER_ID).event_key == ID
    assert read(USER_REPORT, {"comments": "x"}, OTHER_ID).event_key == OTHER_ID
    assert read(USER_REPORT, {"comments": "x", "event_id": "x"}).event_key is None


def test_what_is_a_repeat() -> None:
    """The same id, or the same text of the same error. Without either each is one of its own."""
    assert read(FEEDBACK, newer()).sent_key == read(FEEDBACK, newer(message="changed")).sent_key
    assert read(FEEDBACK, newer()).sent_key != read(FEEDBACK, {**newer(), "event_id": OTHER_ID}).sent_key
    told = {"comments": "x", "event_id": ID}
    assert read(USER_REPORT, told).sent_key == read(USER_REPORT, {**told}).sent_key
    assert read(USER_REPORT, told).sent_key != read(USER_REPORT, {**told, "name": "Ann"}).sent_key
    assert read(USER_REPORT, {"comments": "x"}).sent_key != read(USER_REPORT, {"comments": "x"}).sent_key


@pytest.mark.parametrize("address", ["https://x.y/a?token=1", "https://x.y/a?b=c#d=e", "https://x.y/a#token=1"])
def test_an_address_keeps_no_query(address: str) -> None:
    assert read(FEEDBACK, newer(url=address)).url == "https://x.y/a"


def test_a_secret_behind_the_bound_is_hidden_before_the_cut() -> None:
    """A card that would be cut in two is no card any more, and its beginning would stay."""
    for at in range(MAX_BYTES - 25, MAX_BYTES + 3):
        row = read(FEEDBACK, newer(message=f"{'y' * (at - 1)} 4111111111111111 and more"))
        assert "411" not in row.message
        assert row.adjusted == ["text"]


@given(st.sampled_from(sorted(SOURCES)), st.dictionaries(st.sampled_from(
    ["event_id", "comments", "name", "email", "contexts", "user", "release", "environment", "feedback"]
), ANYTHING), ANYTHING)  # fmt: skip
def test_whatever_is_sent_is_read_or_refused(source: str, payload: dict[str, Any], context: Any) -> None:
    for sent in (payload, {**payload, "contexts": {"feedback": context}}):
        try:
            row = read(source, sent)
        except MalformedFeedback:
            continue
        assert row.message.strip() or row.message


@given(LONG, LONG, LONG, LONG, LONG)
def test_no_row_is_larger_than_its_bound(text: str, name: str, email: str, url: str, release: str) -> None:
    """And what was written has its part of it, however long the rest is. What is cut is named."""
    payload = {**newer(message=f"x{text}", name=name, contact_email=email, url=url), "release": release}
    row = read(FEEDBACK, payload)
    assert sum(len((getattr(row, member) or "").encode()) for member in TEXTS) <= MAX_BYTES
    if len(row.message) < len(payload["contexts"]["feedback"]["message"]) and "[" not in row.message:
        assert len(row.message.encode()) > LEAST_OF_TEXT - 4
        assert "text" in row.adjusted
