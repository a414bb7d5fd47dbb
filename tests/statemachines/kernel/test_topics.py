"""Versions of a topic reach from the first to the one class without a gap, and each is lifted step by step."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.registry import machines
from statemachines.kernel.machine import Event
from statemachines.kernel.topics import (
    EVENTS,
    LIFTS,
    Payload,
    TopicFault,
    UnknownTopic,
    check_topics,
    declare,
    decode_event,
    decode_events,
    lifts,
    parse_topic,
)
from tests.support.toy import ToyClosed


class Some(msgspec.Struct, frozen=True):
    """Stands for an event."""


def same(payload: Payload) -> Payload:
    return payload


def test_the_declared_topics_fit_together() -> None:
    """Every machine's, with the steps beside them."""
    machines()
    check_topics()


@pytest.mark.parametrize(
    ("stored", "reason", "by"),
    [
        ("toy.closed.v1", "nobody said", "somebody"),
        ("toy.closed.v2", "it was time", "somebody"),
        ("toy.closed.v3", "", ""),
    ],
)
def test_an_old_version_is_lifted_to_the_latest(stored: str, reason: str, by: str) -> None:
    """By every step in between, in order; what the latest version stores is read as it is."""
    payload = b'{"why":"it was time"}' if stored.endswith("v2") else b"{}"
    assert decode_event(stored, payload) == ToyClosed(reason, by)


def test_what_no_release_up_to_this_one_wrote_is_not_guessed() -> None:
    """A later version, and a name that nobody declared."""
    for topic in ("toy.closed.v4", "toy.vanished.v1"):
        with pytest.raises(UnknownTopic) as refused:
            decode_event(topic, b"{}")
        assert refused.value.topic == topic


STORED = st.sampled_from(
    [
        ("toy.closed.v1", b"{}"),
        ("toy.closed.v2", b'{"why":"it was time"}'),
        ("toy.closed.v3", b"{}"),
        ("toy.opened.v1", b'{"label":"s"}'),
        ("toy.closed.v4", b"{}"),
        ("toy.closed.v1", None),
        ("toy.vanished.v1", None),
    ]
)


@given(st.lists(STORED))
def test_many_are_read_as_each_alone(stored: list[tuple[str, bytes | None]]) -> None:
    """Versions, what was erased and what a later release wrote, mixed: each comes back in its own place."""
    events = decode_events([topic for topic, _ in stored], [payload for _, payload in stored])
    assert len(events) == len(stored)
    for (topic, payload), event in zip(stored, events, strict=True):
        if payload is None:
            assert event is None
        elif topic == "toy.closed.v4":
            assert (type(event), event.topic) == (UnknownTopic, topic)
        else:
            assert event == decode_event(topic, payload)


def test_what_a_step_makes_is_held_to_the_class() -> None:
    """A payload that does not fit its event is refused after lifting too, alone and among others."""
    wrong = b'{"why":7}'
    for read in (
        lambda: decode_event("toy.closed.v2", wrong),
        lambda: decode_events(["toy.closed.v2"] * 2, [b'{"why":""}', wrong]),
    ):
        with pytest.raises(msgspec.ValidationError):
            read()


@pytest.mark.parametrize(
    ("events", "steps", "fault"),
    [
        (["a.b.v3"], ["a.b.v2"], r"nothing lifts a\.b\.v1"),
        (["a.b.v3"], ["a.b.v1"], r"nothing lifts a\.b\.v2"),
        (["a.b.v2"], [], r"nothing lifts a\.b\.v1"),
        (["a.b.v1", "a.b.v2"], ["a.b.v1"], r"a\.b has a class for two versions"),
        (["a.b.v2"], ["a.b.v1", "a.b.v2"], r"a\.b\.v2 is lifted to a version that has no class"),
        (["a.b.v1"], ["a.c.v1"], r"a\.c\.v1 is lifted to a version that has no class"),
        (["a.b.v0"], [], r"a\.b\.v0 is no topic"),
        (["a.b"], [], r"a\.b is no topic"),
    ],
)
def test_what_does_not_fit_stops_the_start(events: list[str], steps: list[str], fault: str) -> None:
    """A gap, a step that leads nowhere or in a circle, two classes of one event, a name without a version."""
    with pytest.raises(TopicFault, match=fault):
        check_topics(dict.fromkeys(events, Some), dict.fromkeys(steps, same))


def test_one_version_has_one_class_and_one_step() -> None:
    """A second one is refused where it is declared, and nothing of it stays."""
    with pytest.raises(TopicFault, match=r"two events are named toy\.closed\.v3"):
        declare(ToyClosed.TOPIC, Some)
    with pytest.raises(TopicFault, match=r"two steps lift toy\.closed\.v1"):
        lifts("toy.closed.v1")(same)
    assert EVENTS[ToyClosed.TOPIC] is ToyClosed
    assert LIFTS["toy.closed.v1"] is not same


def test_an_event_declares_itself() -> None:
    """By being a class with a topic."""
    assert issubclass(EVENTS[ToyClosed.TOPIC], Event)
    assert parse_topic(ToyClosed.TOPIC) == ("toy.closed", 3)
