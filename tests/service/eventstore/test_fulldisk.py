"""One line when writes find no room, one when none has failed for a while; whatever the error is wrapped in."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from structlog.testing import capture_logs

from service.discovery import reads
from service.eventstore.connect import connection as connections
from service.eventstore.connect.connection import FullDisk
from service.eventstore.declare.faults import Meaning, judge
from service.settings import Settings


def wrapped() -> Exception:
    """The error as a library passes it on."""
    try:
        try:
            raise psycopg.errors.DiskFull("no space left on device")
        except psycopg.Error as error:
            raise RuntimeError("could not connect") from error
    except RuntimeError as error:
        return error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(connections, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    return now


def test_it_lasts_until_no_write_has_failed_for_a_while(clock: list[float]) -> None:
    full = FullDisk()
    with capture_logs() as lines:
        assert not full.lasts
        assert not full.met(psycopg.errors.LockNotAvailable())
        assert not full.met(None)
        assert full.met(psycopg.errors.DiskFull())
        for _ in range(5):
            clock[0] += connections.QUIET_SECONDS - 1
            assert full.lasts
            assert full.met(wrapped())
        clock[0] += connections.QUIET_SECONDS
        assert [full.lasts, full.lasts] == [False, False]
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("disk_full", "error"),
        ("disk_has_room", "warning"),
    ]
    assert lines[1]["seconds"] == 5 * (connections.QUIET_SECONDS - 1)
    assert full.met(wrapped())
    assert full.lasts, "it can begin again"


def test_processes_that_share_a_directory_tell_each_other(clock: list[float], tmp_path: Path) -> None:
    writing, idle, elsewhere = FullDisk(), FullDisk(), FullDisk()
    for full in (writing, idle):
        full.share(tmp_path)
        assert not full.lasts_anywhere
    with capture_logs() as lines:
        for _ in range(2):
            assert writing.met(wrapped())
            os.utime(tmp_path / connections.MARK, times=(clock[0], clock[0]))
            assert [full.lasts_anywhere for full in (writing, idle, elsewhere)] == [True, True, False]
            assert not idle.lasts, "it counts what it has met itself"
            clock[0] += connections.QUIET_SECONDS
            assert not any(full.lasts_anywhere for full in (writing, idle))
    assert [line["event"] for line in lines] == ["disk_full", "disk_has_room"] * 2, "told by who met it"
    writing.share(tmp_path / "gone")
    assert writing.met(wrapped()), "a mark that cannot be made stops nothing"
    assert not idle.lasts_anywhere


def test_whoever_writes_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is decided what an error means; the command fails alone, as with anything unforeseen."""
    from service.eventstore.declare import faults

    full = FullDisk()
    monkeypatch.setattr(faults, "FULL_DISK", full)
    connection = cast("Any", SimpleNamespace(closed=False))
    assert judge(psycopg.errors.DiskFull(), connection).meaning is Meaning.UNEXPECTED
    assert full.lasts


@pytest.mark.parametrize(("free", "ok"), [(99_999_999, False), (100_000_000, True)])
def test_the_disk_of_an_embedded_database_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, ok: bool
) -> None:
    monkeypatch.setattr(reads, "FULL_DISK", FullDisk())
    monkeypatch.setattr(reads.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    settings = cast("Settings", SimpleNamespace(embedded=True, data_dir=tmp_path, min_free_mb=100))
    assert [(check.name, check.ok) for check in reads.room_checks(settings)] == [("disk", ok), ("writes", True)]
    elsewhere = cast("Settings", SimpleNamespace(embedded=False))
    assert [check.name for check in reads.room_checks(elsewhere)] == ["writes"]
