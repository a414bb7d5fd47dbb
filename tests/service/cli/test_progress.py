"""Progress of long work as it is told where nobody sees a bar."""

from __future__ import annotations

import pytest

from service.cli.shared import common
from service.cli.shared.common import progress


def lines(work: list[tuple[int, int]], capsys: pytest.CaptureFixture[str]) -> list[str]:
    with progress("Tables") as report:
        for done, total in work:
            report(done, total)
    return capsys.readouterr().err.splitlines()


def test_what_takes_long_ends_at_its_total(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 1.0, 3.0, 3.0, 4.0])
    monkeypatch.setattr(common.time, "monotonic", lambda: next(clock))
    assert lines([(1, 3), (2, 3), (3, 3)], capsys) == ["Tables: 2 of 3", "Tables: 3 of 3"]


def test_the_end_is_told_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 3.0, 3.0])
    monkeypatch.setattr(common.time, "monotonic", lambda: next(clock))
    assert lines([(3, 3)], capsys) == ["Tables: 3 of 3"]


def test_what_is_over_at_once_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines([(1, 1)], capsys) == []
