"""Released event shapes of automation execution: today's program reads and writes them to the byte (P24)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from statemachines import reports
from statemachines.kernel.topics import EVENTS
from statemachines.runs import approval, claim, grant, lease, ledger
from statemachines.runs import events as run_events
from statemachines.runs import receipt as trigger_receipt
from tests.support.examples import example

GOLDEN = Path(__file__).parents[2] / "golden" / "events"
MODULES = (approval, claim, grant, lease, ledger, reports, run_events, trigger_receipt)
EVENTS = {topic: event for topic, event in sorted(EVENTS.items()) if event.__module__ in {m.__name__ for m in MODULES}}
canonical = msgspec.json.Encoder(order="sorted").encode


@pytest.mark.parametrize("topic", EVENTS)
def test_a_released_event_keeps_its_shape(topic: str):
    event = example(EVENTS[topic])
    golden = (GOLDEN / f"{topic}.json").read_bytes()
    assert msgspec.json.decode(golden, type=EVENTS[topic]) == event
    assert canonical(event) == golden


@pytest.mark.parametrize("topic", EVENTS)
def test_a_topic_is_a_stable_versioned_name(topic: str):
    assert re.fullmatch(r"[a-z_]+\.[a-z_]+\.v[1-9]", topic)


def test_payloads_hold_nothing_that_storage_could_change():
    """Strings, booleans, null and integers only: no floats, so canonical JSON survives JSONB."""

    def walk(value: object) -> None:
        assert not isinstance(value, float)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(item)

    for event in EVENTS.values():
        walk(msgspec.to_builtins(example(event)))
