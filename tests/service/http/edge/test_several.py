"""Items of one body are read a few at a time, and go into the intake a part at a time (P25)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.refusals import InvalidPayload
from service.http.answer.errors import PayloadTooLarge
from service.http.body.adjusting import adjust
from service.http.body.gate import check_body
from service.http.cases.intake.several import AT_ONCE, BESIDE, MOST_AT_ONCE, Parts, cut, groups_of, record_several
from service.http.declare.forms import ARRAY, LINES
from service.ingest.intake import BATCH_BYTES
from tests.service.ingest.foreign.test_otlp_cut import memory_of


class _Stage:
    """A call whose sender rests when it is told to; keeps what was stored together."""

    def __init__(self) -> None:
        self.rests = False
        self.stored: list[list[str]] = []
        self.turns: list[tuple[int, bool]] = []
        self.services = SimpleNamespace(intake=self)

    async def turn(self, size: int, *, foreign: bool) -> None:
        self.turns.append((size, foreign))

    async def submit_all(self, items: list[Any]) -> list[str]:
        self.stored.append([item.name for item in items])
        return [f"{item.name} is stored" for item in items]


def _item(name: str, size: int) -> Any:
    return SimpleNamespace(name=name, size=size)


@pytest.fixture
def stage() -> _Stage:
    return _Stage()


@pytest.fixture
def heard() -> list[tuple[Any, Any]]:
    return []


@pytest.fixture
def parts(stage: Any, heard: list[tuple[Any, Any]]) -> Parts[str]:
    def hear(marks: Sequence[str], results: Sequence[Any]) -> int:
        heard.extend(zip(marks, results, strict=True))
        return len(marks)

    return Parts(stage, hear, foreign=True)


async def test_what_a_flush_may_hold_is_stored_before_more_is_read(
    stage: _Stage, parts: Parts[str], heard: list[tuple[Any, Any]]
) -> None:
    for name in "abcd":
        await parts.turn(100)
        parts.add(name.upper(), _item(name, BATCH_BYTES // 2))
    await parts.store()
    assert stage.stored == [["a", "b"], ["c", "d"]]
    assert stage.turns == [(100, True)] * 4
    assert heard == [(name.upper(), f"{name} is stored") for name in "abcd"]


async def test_many_small_ones_go_in_a_thousand_at_a_time(stage: _Stage, parts: Parts[str]) -> None:
    for _ in range(2 * MOST_AT_ONCE + 1):
        await parts.turn(100)
        parts.add("a", _item("a", 1))
    await parts.store()
    assert list(map(len, stage.stored)) == [MOST_AT_ONCE, MOST_AT_ONCE, 1]


async def test_nothing_waits_in_memory_while_its_sender_rests(stage: _Stage, parts: Parts[str]) -> None:
    for name in "abc":
        stage.rests = name == "c"
        await parts.turn(100)
        parts.add(name, _item(name, 1))
    assert stage.stored == [["a", "b"]]
    await parts.store()
    assert stage.stored == [["a", "b"], ["c"]]


async def test_a_rest_alone_stores_nothing(stage: _Stage, parts: Parts[str]) -> None:
    stage.rests = True
    await parts.turn(100)
    assert stage.stored == []


@pytest.mark.parametrize(("size", "together"), [(0, AT_ONCE // BESIDE), (BESIDE, AT_ONCE // BESIDE // 2), (AT_ONCE, 1)])
def test_a_small_item_counts_for_the_time_that_any_takes(size: int, together: int) -> None:
    groups = list(groups_of([size] * (together + 1)))
    assert [group.indexes for group in groups] == [range(together), range(together, together + 1)]
    assert groups[0].size == together * (BESIDE + size)


@pytest.mark.parametrize(
    ("raw", "form"),
    [
        (b"[" + b"0," * 500_000 + b"0]", ARRAY),
        (b"[" + b"xy," * 300_000 + b"0]", ARRAY),
        (b"[" + b"xy," * 300_000, ARRAY),
        (b"xy\n" * 300_000, LINES),
        (b"\n" * 1_000_000 + b"0\n" * 1001, LINES),
    ],
    ids=["array", "no JSON", "open", "lines", "empty lines"],
)
def test_items_are_counted_before_they_are_cut_apart(raw: bytes, form: Any) -> None:
    """A piece of each would take up to a hundred times its bytes."""

    def attempt() -> None:
        with pytest.raises(PayloadTooLarge):
            cut(raw, form.name)

    _, most = memory_of(attempt)
    assert most < 600_000


@given(st.text(alphabet="\n\r\t a", max_size=30).map(str.encode))
def test_lines_are_those_that_hold_something(raw: bytes) -> None:
    lines = [line.strip() for line in raw.split(b"\n") if line.strip()]
    if lines:
        assert [line.strip() for line in cut(raw, LINES.name)] == lines
    else:
        with pytest.raises(InvalidPayload):
            cut(raw, LINES.name)


class _Refusing(_Stage):
    """A call whose items are all refused, in the way of the pipeline; knows what memory they hold at the end."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.raw_body, self.form = raw, ARRAY
        self.sender = self.operation = SimpleNamespace(operation_id="record")
        self.request_id = ""
        self.held = 0

    async def work_on_body(self, work: Any) -> Any:
        return work()

    def take_tokens(self, count: int) -> None:
        pass

    async def turn(self, size: int, *, foreign: bool) -> None:
        pass

    async def decode_one(self, raw: bytes) -> Any:
        try:
            return check_body(raw)
        except InvalidPayload:
            return adjust(raw)

    async def submit_all(self, items: list[Any]) -> list[str]:
        self.held, _ = tracemalloc.get_traced_memory()
        return []


async def test_refused_items_hold_nothing_of_how_they_were_read() -> None:
    """A thousand of two bytes took five megabytes, and a connection each as many as there were."""
    call: Any = _Refusing(b"[" + b",".join([b"x"] * 1000) + b"]")
    tracemalloc.start()
    try:
        answer = await record_several(call, "logs", lambda *_: None)  # type: ignore[arg-type,return-value]
    finally:
        tracemalloc.stop()
    assert answer.body.refused == 1000
    assert 0 < call.held < 1_500_000
