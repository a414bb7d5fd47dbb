"""Feedback of people about a product or one of its errors, in the two forms of Sentry's SDKs. Pure functions.

An item `user_report` has the text as `comments`, and the id of the error. An item `feedback` is an event of its own,
with the text in its context `feedback`. Each member counts where it is of the documented type.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from service.ids import new_id
from service.ingest.bounds import without_query
from service.ingest.foreign.common import MAX_EMAIL, MAX_ENVIRONMENT, MAX_NAME, known_user, object_of, text_of
from service.ingest.foreign.sentry_event import event_id_of
from service.ingest.kept import FeedbackRow
from service.ingest.people import is_placeholder
from service.ingest.scrubbing import Findings, Scrubber

USER_REPORT = "user_report"
FEEDBACK = "feedback"
SOURCES = frozenset({USER_REPORT, FEEDBACK})
"""Types of items with feedback."""

MAX_BYTES = 4096
"""Of all texts of a report. The rest is cut."""
LEAST_OF_TEXT = 1024
"""Of them, the share of the text itself, however long the others are."""
MAX_URL = 500

_encode = msgspec.json.Encoder().encode


class MalformedFeedback(Exception):
    """An item without a text of a person. The message says why."""


class _Sent(NamedTuple):
    """A report as it was sent. `own_id` is that of the report, `event_key` that of its error."""

    message: str
    name: str | None
    email: str | None
    url: str | None
    user: Mapping[str, Any]
    release: str | None
    environment: str | None
    own_id: str | None
    event_key: str | None


def to_row(
    source: str, payload: Mapping[str, Any], envelope_id: str | None, scrubber: Scrubber, places: tuple[str, ...] = ()
) -> tuple[FeedbackRow, Findings]:
    """Read an item of a source into its row, scrubbed and then cut to MAX_BYTES. Also returns the findings.

    `places` are those adjusted before. Raises MalformedFeedback.
    """
    sent = _user_report(payload, envelope_id) if source == USER_REPORT else _feedback(payload, envelope_id)
    user = known_user(sent.user) or {}
    texts = {
        "user_id": user.get("id"),
        "email": sent.email,
        "name": sent.name,
        "release": sent.release,
        "environment": sent.environment,
        "url": sent.url and without_query(sent.url)[0],
        "text": sent.message,
    }
    shown, counts = _scrubbed(texts, scrubber)
    shown["user_id"] = shown["user_id"] or shown["email"]  # An address names somebody, as that of an error does.
    kept = _fitting(shown)
    cut = [name for name, text in shown.items() if text != kept[name]]
    sent_key = sent.own_id or _content_key(source, sent.event_key, kept)
    row = FeedbackRow(
        id=new_id("fbk"),
        sent_key=f"{source}:{sent_key}",
        source=source,
        message=kept["text"] or "",
        name=kept["name"],
        email=kept["email"],
        url=kept["url"],
        user_id=kept["user_id"],
        release=kept["release"],
        environment=kept["environment"],
        adjusted=[*places, *cut],
        event_key=sent.event_key,
    )
    return row, counts


def _user_report(payload: Mapping[str, Any], envelope_id: str | None) -> _Sent:
    """The older form. An envelope with it has the id of the error, too."""
    return _Sent(
        message=_text(payload.get("comments"), "comments"),
        name=_named(payload.get("name")),
        email=_named(payload.get("email")),
        url=None,
        user={},
        release=None,
        environment=None,
        own_id=None,
        event_key=event_id_of(payload.get("event_id"), envelope_id),
    )


def _feedback(payload: Mapping[str, Any], envelope_id: str | None) -> _Sent:
    """The newer form. Its own id is that of the event, and the error's is in the context."""
    context = object_of(object_of(payload.get("contexts")).get("feedback"))
    user = object_of(payload.get("user"))
    return _Sent(
        message=_text(context.get("message"), "contexts.feedback.message"),
        name=_named(context.get("name")) or _named(user.get("name")) or _named(user.get("username")),
        email=_named(context.get("contact_email")) or _named(user.get("email")),
        url=text_of(context.get("url")),
        user=user,
        release=text_of(payload.get("release")),
        environment=text_of(payload.get("environment")),
        own_id=event_id_of(payload.get("event_id"), envelope_id),
        event_key=event_id_of(context.get("associated_event_id")),
    )


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise MalformedFeedback(f"{place} must be a text that somebody wrote")
    return value


def _named(value: Any) -> str | None:
    """A name or address of a person. None for a placeholder."""
    return value.strip() if isinstance(value, str) and value.strip() and not is_placeholder(value) else None


def _scrubbed(texts: Mapping[str, str | None], scrubber: Scrubber) -> tuple[dict[str, str | None], Findings]:
    """Hide secrets. The id of a person is searched for those of this service alone, as that of an error."""
    counts = Findings()
    shown = dict(texts)
    if suspicion := scrubber.look(_encode(shown)):
        for name, text in texts.items():
            if text is not None:
                hide = scrubber.kept_text if name == "user_id" else scrubber.text
                shown[name] = hide(text, suspicion, counts)
    return shown, counts


def _fitting(texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Cut each text to its bound, and all of them to MAX_BYTES, that of the person last."""
    most = {"email": MAX_EMAIL, "environment": MAX_ENVIRONMENT, "url": MAX_URL, "text": MAX_BYTES}
    room, kept = MAX_BYTES - LEAST_OF_TEXT, dict[str, str | None]()
    for name, text in texts.items():
        room += LEAST_OF_TEXT if name == "text" else 0
        shown = None if text is None else _cut(text[: most.get(name, MAX_NAME)], room)
        kept[name] = shown
        room -= len(shown.encode()) if shown else 0
    return kept


def _cut(text: str, room: int) -> str:
    """The beginning of a text with at most so many bytes."""
    return text.encode()[:room].decode(errors="ignore")


def _content_key(source: str, event_key: str | None, kept: Mapping[str, str | None]) -> str:
    """Names a report without an id: by its error and contents, else as one of its own."""
    if event_key is None:
        return new_id("one")
    return hashlib.sha256(_encode([source, event_key, dict(kept)])).hexdigest()


# What SDKs tell of themselves, counted: the items that they send, and what they have dropped before they sent it.

OTHER = "other"
"""Stands for a name that is not known: how many names there are must not be up to who sends them."""

MAX_QUANTITY = 2**31 - 1
_MAX_ROWS = 100

ITEM_TYPES = frozenset(
    {
        "attachment",
        "check_in",
        "client_report",
        "event",
        "feedback",
        "form_data",
        "log",
        "metric_buckets",
        "minidump",
        "nel",
        "profile",
        "profile_chunk",
        "raw_security",
        "replay_event",
        "replay_recording",
        "replay_video",
        "session",
        "sessions",
        "span",
        "statsd",
        "trace_metric",
        "transaction",
        "user_report",
    }
)
_REASONS = frozenset(
    {
        "backpressure",
        "before_send",
        "buffer_overflow",
        "cache_overflow",
        "event_processor",
        "ignored",
        "insufficient_data",
        "internal_sdk_error",
        "invalid",
        "network_error",
        "no_parent_span",
        "queue_overflow",
        "ratelimit_backoff",
        "sample_rate",
        "send_error",
    }
)
_CATEGORIES = frozenset(
    {
        "attachment",
        "default",
        "error",
        "feedback",
        "internal",
        "log_byte",
        "log_item",
        "metric_bucket",
        "monitor",
        "profile",
        "profile_chunk",
        "replay",
        "security",
        "session",
        "span",
        "trace_metric",
        "transaction",
    }
)


class _Discarded(msgspec.Struct):
    reason: str
    category: str
    quantity: int


class _Report(msgspec.Struct):
    discarded_events: list[_Discarded] = []


_decode = msgspec.json.Decoder(_Report).decode


def known_type(item_type: str) -> str:
    """The type of an item as it is counted."""
    return item_type if item_type in ITEM_TYPES else OTHER


def read_report(raw: bytes) -> Counter[tuple[str, str]]:
    """What a client report says was dropped, by reason and category; nothing for what is none. Pure."""
    counts = Counter[tuple[str, str]]()
    try:
        report = _decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return counts
    for row in report.discarded_events[:_MAX_ROWS]:
        if 0 < row.quantity <= MAX_QUANTITY:
            reason = row.reason if row.reason in _REASONS else OTHER
            counts[reason, row.category if row.category in _CATEGORIES else OTHER] += row.quantity
    return counts
