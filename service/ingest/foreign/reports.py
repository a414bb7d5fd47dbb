"""What SDKs tell of themselves, counted: the items that they send, and what they have dropped before they sent it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

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


@dataclass(slots=True)
class SdkCounts:
    """What one process has been told: items by protocol and type, drops by protocol, reason and category."""

    items: Counter[tuple[str, ...]] = field(default_factory=Counter)
    discarded: Counter[tuple[str, ...]] = field(default_factory=Counter)


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
