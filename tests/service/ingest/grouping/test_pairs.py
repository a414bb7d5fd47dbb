"""Pairs of errors in twenty languages, as their SDKs document them: the same bug, or another one (G-198).

`pairs.json` has 60 pairs of each kind, as events of Sentry's SDKs or as log records of OpenTelemetry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.ingest.foreign.common import to_log
from service.ingest.foreign.otlp import OtlpRecord, Scope
from service.ingest.foreign.otlp import to_event as of_otlp
from service.ingest.foreign.sentry_event import read_event
from service.ingest.items import Assignment, Item
from service.ingest.scrubbing import Scrubber
from tests.support.ingest import sender

LEAST_RIGHT = 115
"""Pairs of the 120 that the newest version tells right."""


class Pair(msgspec.Struct, frozen=True):
    """Two errors, what they have to do with each other, and whether they are the same bug."""

    language: str
    expected: str
    what: str
    one: Mapping[str, Any]
    other: Mapping[str, Any]


PAIRS = msgspec.json.decode(Path(__file__).with_name("pairs.json").read_bytes(), type=list[Pair])


def offered(sent: Mapping[str, Any]) -> tuple[Assignment, ...]:
    """The cases that are offered to an error, in the way that it takes through the intake."""
    match sent:
        case {"sentry": payload}:
            log = to_log(read_event(payload, "0" * 32))
        case {"otlp": record}:
            log = to_log(of_otlp(OtlpRecord(0, 0, 17, "ERROR", record.get("body"), record["attributes"]), Scope({})))
        case _:
            raise AssertionError(sent)
    item = Item("export", sender(), log.body, log.raw, client=log.client, first=log.first, before=log.before)
    item.prepare(Scrubber())
    return item.offered


def is_right(pair: Pair) -> bool:
    """Whether the newest version takes a pair for what it is."""
    one, other = offered(pair.one)[-1], offered(pair.other)[-1]
    return (one.case_id == other.case_id) is (pair.expected == "same")


def test_there_are_sixty_pairs_of_each_kind_in_twenty_languages() -> None:
    assert Counter(pair.expected for pair in PAIRS) == {"same": 60, "another": 60}
    assert set(Counter(pair.language for pair in PAIRS).values()) == {6}
    assert len({pair.language for pair in PAIRS}) == 20


def test_most_pairs_are_told_right(capsys: pytest.CaptureFixture[str]) -> None:
    """One bug is one case, and two bugs are two."""
    wrong = [pair for pair in PAIRS if not is_right(pair)]
    report = "\n".join(f"  {pair.language}, {pair.expected}: {pair.what}" for pair in wrong)
    with capsys.disabled():
        print(f"\n{len(PAIRS) - len(wrong)} of {len(PAIRS)} pairs are right\n{report}")
    assert len(PAIRS) - len(wrong) >= LEAST_RIGHT, report
