"""The events by which the cost of scrubbing is told: of the sizes that are said, and scrubbed as the service does."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from scripts.bench import scrubbing
from service.ingest.scrubbing import Scrubber


@pytest.mark.parametrize(
    ("size", "least", "most"), [("300 B", 200, 320), ("2 kB", 1800, 2200), ("14 kB", 13000, 15000)]
)
def test_events_are_of_the_size_that_is_said(size: str, least: int, most: int) -> None:
    assert least <= len(json.dumps(scrubbing.event(17, scrubbing.FRAMES[size]))) <= most


def test_some_have_something_to_hide_and_most_do_not() -> None:
    texts = [json.dumps(scrubbing.event(number, 9)).encode() for number in range(2 * scrubbing.TOLD)]
    assert sum(bool(Scrubber().look(text)) for text in texts) == 2


def test_each_event_has_its_time() -> None:
    assert all(seconds >= 0 for seconds in islice(scrubbing._scrubbing(0, fresh=True), 20))
