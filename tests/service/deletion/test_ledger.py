"""The ledger of erasures: whole lines, once each, shared by hosts, and readable after a crash."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.deletion import ledger
from service.deletion.ledger import Erasure, erasures, remember


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "erasures.jsonl"


def test_an_erasure_is_remembered_once_by_name_and_time_alone(path: Path):
    assert erasures(path) == []
    for _ in range(2):
        remember(path, Erasure("proj_1", "del_1", 5))
    remember(path, Erasure("usr_1", "del_2", 6))
    assert erasures(path) == [("proj_1", "del_1", 5), ("usr_1", "del_2", 6)]
    assert [set(json.loads(line)) for line in path.read_text().splitlines()] == [
        {"scope_id", "deletion_id", "at"},
        {"scope_id", "deletion_id", "at"},
    ]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_is_on_the_disk_before_it_counts(path: Path, monkeypatch: pytest.MonkeyPatch):
    """The file with its line, and a new file's name in its folder; a line of somebody else's is synced for them."""
    synced: list[str | bytes] = []

    def note(descriptor: int) -> None:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        synced.append(path.read_bytes() if is_file else "folder")

    monkeypatch.setattr(ledger.os, "fsync", note)
    remember(path, Erasure("proj_1", "del_1", 5))
    assert synced == [path.read_bytes(), "folder"]
    for erasure in (Erasure("proj_2", "del_2", 6), Erasure("proj_1", "del_1", 5)):
        synced.clear()
        remember(path, erasure)
        assert synced == [path.read_bytes()]


def test_a_line_that_a_crash_cut_off_is_ended_before_the_next(path: Path):
    remember(path, Erasure("proj_1", "del_1", 5))
    with path.open("ab") as file:
        file.write(b'{"scope_id":"proj_2","dele')
    remember(path, Erasure("proj_3", "del_3", 7))
    assert erasures(path) == [("proj_1", "del_1", 5), ("proj_3", "del_3", 7)]


def test_many_writers_leave_whole_lines(path: Path):
    wanted = [Erasure(f"proj_{n}", f"del_{n}", n) for n in range(64)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda erasure: remember(path, erasure), wanted))
    assert sorted(erasures(path), key=lambda erasure: erasure.at) == wanted


def test_another_host_that_hangs_does_not_hang_this_one(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ledger, "WAIT_SECONDS", 0.05)
    remember(path, Erasure("proj_1", "del_1", 5))
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            remember(path, Erasure("proj_2", "del_2", 6))
    remember(path, Erasure("proj_2", "del_2", 6))
    assert len(erasures(path)) == 2
