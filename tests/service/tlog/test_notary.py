"""The thread that signs: woken by whoever numbers events, and rarely looking otherwise (G-169)."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.eventstore.connect.connection import Connection
from service.eventstore.log.sequencer import Sequencer
from service.tlog import signing as notaries
from service.tlog.signing import Notary
from service.tlog.tree import latest_checkpoint
from tests.support.trees import fill, signer_at

Sql = psycopg.Connection[Any]
PATIENCE = 30.0


class Counted(Notary):
    """Counts its turns."""

    turns = 0

    def turn(self, connection: Connection) -> float:
        self.turns += 1
        return super().turn(connection)


def signed_size(sql: Sql) -> int:
    kept = latest_checkpoint(sql)
    return -1 if kept is None else kept.size


def wait_for(sql: Sql, size: int) -> None:
    until = time.monotonic() + PATIENCE
    while signed_size(sql) != size:
        assert time.monotonic() < until, f"{size} is not signed"
        time.sleep(0.02)


def test_an_idle_one_looks_rarely_and_still_finds_what_others_numbered(toys_url: str, sql: Sql, tmp_path: Path) -> None:
    """No poll of 40 looks a second. A process may die between numbering and waking: its sequencer finds the rest."""
    notary = Counted(toys_url, signer_at(tmp_path))
    sequencer = Sequencer(toys_url, notary.wake)
    notary.start()
    sequencer.start()
    try:
        wait_for(sql, 0)
        before = notary.turns
        time.sleep(1.0)
        assert notary.turns - before <= 2
        fill(sql, 3)  # numbered already, and without a ring
        wait_for(sql, 3)
    finally:
        sequencer.stop()
        notary.stop()


def test_the_sequencer_wakes_it(toys_url: str, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would look again in an hour only."""
    monkeypatch.setattr(notaries, "IDLE_POLL", 3600.0)
    notary = Notary(toys_url, signer_at(tmp_path))
    sequencer = Sequencer(toys_url, notary.wake)
    notary.start()
    sequencer.start()
    try:
        wait_for(sql, 0)
        for size in (1, 2, 3):
            sql.execute(
                "with added as (insert into events (project_id, stream_id, revision, kind, topic, event_id, "
                "command_id, actor_kind, actor_id, request_id, correlation_id, causation_id, recorded_at, "
                "payload_hash, leaf, chain) select 'p', 's', %s, 'toy', 'toy.filled.v1', %s, '', '', '', '', '', '', "
                "clock_timestamp(), '', '', '' returning seq) insert into unsequenced select seq from added",
                (size, str(size)),
            )
            wait_for(sql, size)
    finally:
        started = time.monotonic()
        sequencer.stop()
        notary.stop()
    assert time.monotonic() - started < 4.0, "stopping wakes it as well"


def test_a_hurried_one_keeps_its_spacing(toys_url: str, sql: Sql, tmp_path: Path) -> None:
    """However often it is woken, a second has at most five checkpoints."""
    notary = Counted(toys_url, signer_at(tmp_path))
    notary.start()
    stop = threading.Event()

    def hurry() -> None:
        while not stop.is_set():
            notary.wake()
            time.sleep(0.001)

    thread = threading.Thread(target=hurry)
    thread.start()
    try:
        wait_for(sql, 0)
        for _ in range(60):
            fill(sql, 1)
            time.sleep(0.01)
        wait_for(sql, 60)
    finally:
        stop.set()
        thread.join()
        notary.stop()
    spaced = sql.execute(
        "select extract(epoch from signed_at - lag(signed_at) over (order by size))::float8 from log_checkpoints"
    ).fetchall()
    assert len(spaced) >= 3
    assert all(seconds >= 0.2 for [seconds] in spaced if seconds is not None)
    assert notary.turns > len(spaced), "it was woken in between"


def test_a_refused_log_is_not_looked_at_more_often_for_being_woken(toys_url: str, sql: Sql, tmp_path: Path) -> None:
    signer = signer_at(tmp_path)
    signer.file.path.write_text("no checkpoint")
    notary = Notary(toys_url, signer)
    with psycopg.connect(toys_url, autocommit=True) as own:
        assert notary.turn(own) == notaries.REFUSED_POLL
        assert 0 < notary.turn(own) < notaries.REFUSED_POLL
        signer.file.path.unlink()
        assert 0 < notary.turn(own) < notaries.REFUSED_POLL
    assert signed_size(sql) == -1
