"""Events of Sentry's SDKs are read for what they say, whatever else is in them (G-142)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ingest.foreign.common import to_log
from service.ingest.foreign.feedback import MAX_QUANTITY, known_type, read_report
from service.ingest.foreign.sentry_event import event_id_of, read_event
from service.ingest.grouping.fingerprint import gather, group
from tests.support.sentry import EVENT_ID, NATIVE_LOG, PYTHON_EVENT


def test_an_exception_as_the_sdk_sends_it() -> None:
    """Everything that is kept of it, and where."""
    log = to_log(read_event(PYTHON_EVENT, EVENT_ID)).body
    assert (log.message, log.level, log.environment, log.release) == (
        "Card 17 refused",
        "error",
        "staging",
        "shop@1.2.3",
    )
    assert log.user is not None
    assert (log.user.id, log.user.email) == ("42", "u1@example.com")
    assert log.tags == {"region": "eu", "attempt": "3"}
    assert log.extra == {
        "exception": {
            "type": "PaymentError",
            "value": "Card 17 refused",
            "module": "shop.pay",
            "frames": [
                {
                    "file": "api.py",
                    "function": "get",
                    "in_app": False,
                    "filename": "requests/api.py",
                    "abs_path": "/srv/app/.venv/lib/python3.11/site-packages/requests/api.py",
                },
                {
                    "file": "pay.py",
                    "function": "charge",
                    "in_app": True,
                    "filename": "shop/pay.py",
                    "abs_path": "/srv/app/shop/pay.py",
                    "module": "shop.pay",
                    "lineno": 17,
                    "symbol": "Shop.charge",
                    "context_line": "    raise PaymentError(card)",
                },
            ],
            "mechanism": {"handled": True},
            "causes": [{"type": "KeyError", "value": "'card'", "frames": []}],
        },
        "debug_meta": {"images": [{"type": "sourcemap", "code_file": "app.js", "debug_id": "d" * 32}]},
        "sdk": {"protocol": "sentry", "event_id": EVENT_ID, "name": "sentry.python", "version": "2.0.0"},
        "server_name": "web-1",
        "platform": "python",
        "timestamp": "2026-11-22T10:00:00.000000Z",
        "contexts": PYTHON_EVENT["contexts"],
        "extra": PYTHON_EVENT["extra"],
        "breadcrumbs": PYTHON_EVENT["breadcrumbs"]["values"],
    }
    assert group(gather(log.message, log.extra)) == group(gather(NATIVE_LOG["message"], NATIVE_LOG["extra"]))


SEVEN = [f"line {number}" for number in range(7)]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param(  # of Python: five lines each
            {"pre_context": SEVEN[:5], "context_line": "raise E", "post_context": SEVEN[:5]},
            {"pre_context": SEVEN[:5], "context_line": "raise E", "post_context": SEVEN[:5]},
            id="python",
        ),
        pytest.param(  # of Node: seven lines each, of which the nearest stay
            {"pre_context": SEVEN, "context_line": "throw e;", "post_context": SEVEN},
            {"pre_context": SEVEN[2:], "context_line": "throw e;", "post_context": SEVEN[:5]},
            id="node",
        ),
        pytest.param(  # of Ruby, at the first line of a file
            {"pre_context": [], "context_line": "raise 'no'", "post_context": ["end", ""]},
            {"context_line": "raise 'no'", "post_context": ["end", ""]},
            id="ruby",
        ),
        pytest.param(  # of PHP, at the last line of a file
            {"pre_context": ["<?php", ""], "context_line": "throw new E;", "post_context": None},
            {"pre_context": ["<?php", ""], "context_line": "throw new E;"},
            id="php",
        ),
        pytest.param(  # of nobody: what is of another type is as if absent
            {"pre_context": ["a", 7], "context_line": "x" * 900, "post_context": {"a": "b"}},
            {"context_line": "x" * 500},
            id="odd",
        ),
    ],
)
def test_frames_keep_the_lines_around_theirs(sent: dict[str, Any], kept: dict[str, Any]) -> None:
    """As SDKs send them, the five nearest on either side."""
    frames = [{"filename": "a.py", "function": "f", **sent}, {"filename": "b.py", "function": "g"}]
    event = {"exception": {"values": [{"type": "E", "value": "v", "stacktrace": {"frames": frames}}]}}
    extra = to_log(read_event(event, EVENT_ID)).body.extra
    assert extra is not None
    last, first = extra["exception"]["frames"]
    assert {name: first[name] for name in first if "context" in name} == kept
    assert not [name for name in last if "context" in name]


@pytest.mark.parametrize(
    ("event", "message", "level"),
    [
        ({"message": "it happened", "level": "info"}, "it happened", "info"),
        ({"message": {"message": "%s", "formatted": "this"}, "level": "warning"}, "this", "warning"),
        ({"logentry": {"message": "id %s", "params": [1]}, "level": "log"}, "id 1", "info"),
        ({"logentry": {"formatted": "f", "message": "m"}, "message": "other"}, "f", "error"),
        ({"exception": [{"type": "T", "value": ""}], "level": "fatal"}, "T", "fatal"),
        ({"exception": {"type": "T", "value": "v"}}, "v", "error"),
        ({"exception": {"values": [None, 7]}, "level": 3}, "(no message)", "error"),
    ],
)
def test_other_ways_to_say_it(event: dict[str, Any], message: str, level: str) -> None:
    """A message without an exception is a log, of its level."""
    log = to_log(read_event(event, EVENT_ID)).body
    assert (log.message, log.level) == (message, level)


def test_ids() -> None:
    """With dashes or without, the event's before the envelope's."""
    assert event_id_of(None, "0123ABCD-4567-89ab-cdef-0123456789ab") == "0123abcd456789abcdef0123456789ab"
    assert event_id_of(EVENT_ID, "f" * 32) == EVENT_ID
    assert event_id_of("x", 7, None) is None


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["values", "frames", "stacktrace", "type", "value", "lineno", "images", "debug_id", "id"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
MEMBERS = st.sampled_from([*PYTHON_EVENT, "logentry", "message", "request", "fingerprint"])


@given(event=st.dictionaries(MEMBERS, JSON, max_size=8))
def test_any_object_is_an_event(event: dict[str, Any]) -> None:
    """Members of other types than the documented ones are as if absent."""
    assert to_log(read_event(event, EVENT_ID)).body.message


def test_client_reports() -> None:
    """Are counted by known names; what is no report counts nothing."""
    report = b'{"discarded_events":[{"reason":"before_send","category":"error","quantity":3},'
    report += b'{"reason":"made up","category":"nonsense","quantity":2},{"reason":"x","category":"y","quantity":-1},'
    report += b'{"reason":"x","category":"y","quantity":%d}]}' % (MAX_QUANTITY + 1)
    assert read_report(report) == {("before_send", "error"): 3, ("other", "other"): 2}
    assert read_report(b"[") == read_report(b'{"discarded_events":[{"reason":1}]}') == {}
    assert (known_type("session"), known_type("anything")) == ("session", "other")
