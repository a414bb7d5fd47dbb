"""The tree over positions: built in steps by anybody, signed by one at a time, and never of two histories (G-169)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.tlog.hashing import EMPTY, check_consistency, check_inclusion
from service.tlog.notes import BadSignature, SignedNote, parse_checkpoint, parse_note, verify_note
from service.tlog.signing import STEP_SECONDS, Verdict, sign_once, thin_out
from service.tlog.tree import (
    LogBroken,
    NotInTree,
    check_tree,
    checkpoint_for,
    consistency,
    grow,
    grow_once,
    inclusion,
    latest_checkpoint,
    pin,
    roots,
)
from tests.support.trees import fill, naive_leaves, naive_root, sign_all, signer_at

Sql = psycopg.Connection[Any]


def tiles(sql: Sql) -> dict[int, int]:
    """Full tiles by level."""
    return dict(sql.execute("select level, count(*) from log_tiles group by level order by level").fetchall())


@contextmanager
def killed(sql: Sql) -> Iterator[None]:
    """What a process leaves behind that is killed before it commits the block."""
    with sql.transaction(force_rollback=True):
        yield


def test_the_first_look_signs_the_empty_log(sql: Sql, tmp_path: Path) -> None:
    signer = signer_at(tmp_path)
    assert sign_once(sql, signer).checkpoint is not None
    kept = latest_checkpoint(sql)
    assert kept is not None
    assert (kept.size, kept.root) == (0, EMPTY)
    assert kept.origin.startswith("service.invalid/log/")
    assert signer.file.path.read_text() == kept.note
    assert signer.file.path.name == "erasures.checkpoint"
    assert sign_once(sql, signer).checkpoint is None, "nothing is new"


def test_a_checkpoint_has_the_root_of_the_definition_and_both_signatures(sql: Sql, tmp_path: Path) -> None:
    signer = signer_at(tmp_path)
    for count in (1, 254, 1, 1, 300):
        fill(sql, count)
        sign_all(sql, signer)
    leaves = naive_leaves(557)
    kept = latest_checkpoint(sql)
    assert kept is not None
    assert (kept.size, kept.root) == (557, naive_root(leaves))
    note = parse_note(kept.text.encode())
    assert parse_checkpoint(note.text) == (kept.origin, 557, kept.root, ())
    keys = signer.pair.as_log(kept.origin)
    assert [key for key, _ in verify_note(note, keys)] == list(keys)
    assert len(note.signatures) == 2
    assert tiles(sql) == {0: 2}
    assert sign_once(sql, signer).checkpoint is None


def test_proofs_of_every_size_verify(sql: Sql) -> None:
    fill(sql, 600)
    grow(sql)
    leaves = naive_leaves(600)
    for size in (1, 2, 3, 255, 256, 257, 511, 512, 513, 600):
        [root] = roots(sql, [size], size)
        assert root == naive_root(leaves[:size])
        for position in {1, size // 2 + 1, size}:
            check_inclusion(position - 1, size, leaves[position - 1], inclusion(sql, position, size), root)
        for old in (0, 1, size // 2, size):
            old_root = naive_root(leaves[:old])
            check_consistency(old, size, old_root, root, consistency(sql, old, size))
    for position, size in ((0, 5), (6, 5), (1, 0)):
        with pytest.raises(NotInTree):
            inclusion(sql, position, size)
    with pytest.raises(NotInTree):
        consistency(sql, 6, 5)
    with pytest.raises(NotInTree):
        inclusion(sql, 1, 601)


def test_a_log_that_was_there_before_enters_in_steps(sql: Sql, tmp_path: Path) -> None:
    """Each step is whole, and whoever goes on finds what is built."""
    fill(sql, 66_000)
    assert grow_once(sql, most=100)
    assert tiles(sql) == {0: 100}
    with killed(sql):
        grow_once(sql, most=100)
    assert tiles(sql) == {0: 100}
    signer = signer_at(tmp_path)
    assert sign_once(sql, signer) == (None, None, STEP_SECONDS), "it is not signed before it is whole"
    sign_all(sql, signer)
    assert tiles(sql) == {0: 257, 1: 1}
    kept = latest_checkpoint(sql)
    assert kept is not None
    assert (kept.size, kept.root) == (66_000, naive_root(naive_leaves(66_000)))


def test_builders_and_signers_at_once_do_no_harm(toys_url: str, sql: Sql, tmp_path: Path) -> None:
    """Four of them, and a log that grows meanwhile: no size is signed twice, and every root is right."""
    stop, failed = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            with psycopg.connect(toys_url, autocommit=True) as own:
                while not stop.is_set():
                    sign_once(own, signer_at(tmp_path))
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(12):
        fill(sql, 130)
        sql.execute("select pg_sleep(0.05)")
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sign_all(sql, signer_at(tmp_path)) in {None, (Verdict.SAME, "")}
    leaves = naive_leaves(12 * 130)
    found = sql.execute("select size, root, signed_at from log_checkpoints order by size").fetchall()
    assert [root for _, root, _ in found] == [naive_root(leaves[:size]) for size, _, _ in found]
    times = [at for _, _, at in found]
    assert all((later - at).total_seconds() >= 0.19 for at, later in pairwise(times))
    assert tiles(sql) == {0: 6}


def test_a_tile_cannot_be_made_of_missing_events(sql: Sql) -> None:
    fill(sql, 300)
    sql.execute("delete from log_index where position = 100")
    with pytest.raises(LogBroken):
        grow(sql)


def test_verifying_finds_a_tree_that_is_not_that_of_the_events(
    toys_url: str, cluster: Any, sql: Sql, tmp_path: Path
) -> None:
    fill(sql, 66_000)
    sign_all(sql, signer_at(tmp_path))
    assert list(check_tree(sql)) == []
    with psycopg.connect(cluster.admin_url(toys_url), autocommit=True) as admin:
        for table in ("events", "log_tiles"):
            admin.execute(f"alter table {table} disable trigger all")
        admin.execute("update events set leaf = sha256('x') where revision = 300")
        admin.execute("update log_tiles set root = sha256('x') where level = 0 and tile = 7")
        admin.execute("insert into log_tiles values (0, 999, %s, sha256('x'))", (b"x" * 8192,))
    found = [(problem.what, problem.revision, problem.detail) for problem in check_tree(sql)]
    [[origin]] = sql.execute("select origin from log_origins").fetchall()
    assert found == [
        ("tile_differs", 257, "level 0"),
        ("tile_differs", 7 * 256 + 1, "level 0"),
        ("checkpoint_differs", 66_000, origin),
        ("tile_without_events", 999 * 256 + 1, "level 0"),
        ("tile_differs", 1, "level 1"),
    ]


# ---- another log --------------------------------------------------------------------------------------------------


def cut(sql: Sql) -> None:
    """Take the tail of the log, as its owner can."""
    for table in ("events", "log_checkpoints", "project_positions"):
        sql.execute(f"alter table {table} disable trigger all")
    sql.execute("delete from events where revision > 200")
    for table in ("log_index", "project_positions"):
        sql.execute(f"delete from {table} where position > 200")
    sql.execute("update log_state set size = 200")


def restored(sql: Sql) -> None:
    """A backup from before the checkpoint."""
    cut(sql)
    sql.execute("delete from log_checkpoints")


def forked(sql: Sql) -> None:
    restored(sql)
    fill(sql, 300, mark="fork")


def rewritten(sql: Sql) -> None:
    sql.execute("alter table events disable trigger all")
    sql.execute("update events set leaf = sha256('x') where revision = 290")
    fill(sql, 1)


def another_origin(sql: Sql) -> None:
    sql.execute("insert into log_origins values (2, 'other', null, null, null, clock_timestamp())")


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (cut, Verdict.SHORTER),
        (restored, Verdict.SHORTER),
        (forked, Verdict.DIFFERS),
        (rewritten, Verdict.DIFFERS),
        (another_origin, Verdict.FOREIGN),
    ],
)
def test_another_log_is_not_signed(
    toys_url: str, cluster: Any, sql: Sql, tmp_path: Path, change: Callable[[Sql], None], verdict: Verdict
) -> None:
    fill(sql, 300)
    signer = signer_at(tmp_path)
    sign_all(sql, signer)
    note = signer.file.path.read_text()
    with psycopg.connect(cluster.admin_url(toys_url), autocommit=True) as admin:
        change(admin)
    before = sql.execute("select origin, size from log_checkpoints").fetchall()
    sql.execute("select pg_sleep(0.25)")
    standing = sign_all(sql, signer)
    assert standing is not None
    assert standing.verdict is verdict
    assert standing.detail
    assert sql.execute("select origin, size from log_checkpoints").fetchall() == before
    assert signer.file.path.read_text() == note


def test_a_file_that_is_no_checkpoint_stops_signing(sql: Sql, tmp_path: Path) -> None:
    signer = signer_at(tmp_path)
    signer.file.path.write_text("half a line")
    standing = sign_all(sql, signer)
    assert standing is not None
    assert standing.verdict is Verdict.UNREADABLE


def test_who_dies_before_the_commit_leaves_a_log_that_can_be_signed_on(sql: Sql, tmp_path: Path) -> None:
    fill(sql, 10)
    signer = signer_at(tmp_path)
    with killed(sql):
        sign_once(sql, signer)
    assert latest_checkpoint(sql) is None
    assert signer.file.path.exists(), "it is on the disk before anybody can see the checkpoint"
    fill(sql, 10)
    sign_all(sql, signer)
    kept = latest_checkpoint(sql)
    assert kept is not None
    assert kept.size == 20


# ---- keys, and what is kept -----------------------------------------------------------------------------------------


def test_the_key_before_signs_along_for_a_day(sql: Sql, tmp_path: Path) -> None:
    old, new = signer_at(tmp_path), signer_at(tmp_path, b"n" * 32, before=b"k" * 32)
    sign_all(sql, old)
    fill(sql, 1)
    sql.execute("select pg_sleep(0.21)")
    sign_all(sql, new)
    kept = latest_checkpoint(sql)
    assert kept is not None
    note = parse_note(kept.text.encode())
    keys = [*new.pair.as_log(kept.origin), *old.pair.as_log(kept.origin)]
    assert [key for key, _ in verify_note(note, keys)] == keys
    assert set(new.vkeys(kept.origin)) == {key.vkey for key in keys}
    sql.execute("alter table log_keys disable trigger all")
    sql.execute("update log_keys set first_signed_at = first_signed_at - interval '25 hours'")
    fill(sql, 1)
    sql.execute("select pg_sleep(0.21)")
    sign_all(sql, new)
    later = latest_checkpoint(sql)
    assert later is not None
    note = parse_note(later.text.encode())
    assert len(note.signatures) == 2
    with pytest.raises(BadSignature):
        verify_note(SignedNote(note.text, note.signatures), old.pair.as_log(kept.origin))


def test_the_last_of_each_minute_and_hour_is_kept_and_what_is_named(sql: Sql) -> None:
    sql.execute(
        "insert into log_checkpoints (origin, size, root, note, signed_at) select o.origin, n, sha256(''), '', "
        "date_trunc('hour', clock_timestamp()) - interval '26 hours' + n * interval '20 seconds' "
        "from log_origins o, generate_series(1, 26 * 180) n"
    )
    [[origin]] = sql.execute("select origin from log_origins").fetchall()
    assert pin(sql, origin, 7)
    assert not pin(sql, origin, 26 * 180 + 1)
    sql.execute("insert into log_cosignatures values (%s, 11, 'w', '— w AAAA', clock_timestamp())", (origin,))
    assert thin_out(sql) > 0
    sizes = {size for (size,) in sql.execute("select size from log_checkpoints").fetchall()}
    assert {7, 11, 26 * 180} <= sizes
    old = {size for size in sizes if size < 180}
    assert old == {7, 11, 179}
    assert len(sizes) in range(23 * 60, 24 * 60 + 10)
    found = checkpoint_for(sql, 8)
    assert found is not None
    assert (found.size, found.cosignatures) == (11, "— w AAAA")
    assert thin_out(sql) == 0


@pytest.mark.parametrize("table", ["log_origins", "log_tiles", "log_checkpoints", "log_cosignatures", "log_keys"])
@pytest.mark.parametrize("change", ["update {} set {} = {}", "delete from {}", "truncate {} cascade"])
def test_what_outsiders_were_shown_is_never_changed(sql: Sql, tmp_path: Path, table: str, change: str) -> None:
    fill(sql, 256)
    sign_all(sql, signer_at(tmp_path))
    sql.execute("insert into log_cosignatures select origin, size, 'w', '', clock_timestamp() from log_checkpoints")
    column = {"log_tiles": "root", "log_checkpoints": "note"}.get(table, "origin")
    value = "sha256('')" if column == "root" else "'x'"
    with pytest.raises(psycopg.errors.RestrictViolation):
        sql.execute(change.format(table, column, value))
    assert sql.execute(f"select count(*) from {table}").fetchall() != [(0,)]
