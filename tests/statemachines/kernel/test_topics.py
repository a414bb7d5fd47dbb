"""Versions of a topic reach from the first to the one class without a gap, and each is lifted step by step."""

from __future__ import annotations

import msgspec
import pytest

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
