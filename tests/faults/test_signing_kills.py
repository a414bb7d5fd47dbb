"""The notary is killed between growing the tree and committing a checkpoint: there stays one history (P20).

A real process dies by SIGKILL at each point. What lies beside the ledger then may have been copied by anybody, so it
counts as shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.eventstore.log.sequencer import sequence_all
from service.eventstore.schema import migrations
from service.tlog.hashing import hash_leaf
from service.tlog.notes import parse_checkpoint, parse_note
from service.tlog.signing import Signer
from service.tlog.tree import check_tree, latest_checkpoint
from tests.faults.dying import run_until_killed
from tests.support.olddatabases import NAMES, bring_back
from tests.support.trees import fill, naive_root, sign_all, signer_at

Sql = psycopg.Connection[Any]


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def leaves(sql: Sql) -> list[bytes]:
    """The leaves of the log, out of the events alone."""
    rows = sql.execute("select e.leaf from log_index i join events e on e.seq = i.seq order by i.position").fetchall()
    return [hash_leaf(bytes(leaf)) for [leaf] in rows]


def tiles(sql: Sql) -> int:
    [[count]] = sql.execute("select count(*) from log_tiles where level = 0").fetchall()
    return int(count)


def signs(sql: Sql, signer: Signer) -> bool:
    """Sign the whole log. False when it is refused."""
    standing = sign_all(sql, signer)
    return standing is None or standing.signs


def test_a_notary_killed_anywhere_leaves_one_history(database_url: str, sql: Sql, tmp_path: Path) -> None:
    """Each note that ever was on the disk, or in the table, is of the one log."""
    signer = signer_at(tmp_path)
    shown: list[str] = []
    sizes: list[int] = []
    for point in ("grown", "signed", "beside", "grown"):
        fill(sql, 300)
        run_until_killed(point, database_url, tmp_path / "erasures.jsonl")
        if signer.file.path.exists():
            shown.append(signer.file.path.read_text())
        beside = signer.file.read()
        kept = latest_checkpoint(sql)
        sizes.append(0 if beside is None else beside.size)
        assert (0 if kept is None else kept.size) <= sizes[-1], "nobody saw a checkpoint that is not beside the ledger"
        fill(sql, 7)
    assert sizes == [0, 0, 300 + 2 * 307, 300 + 2 * 307]
    assert signs(sql, signer), "the next start signs on"
    shown += [note for [note] in sql.execute("select note from log_checkpoints").fetchall()]
    whole, roots = leaves(sql), dict[int, bytes]()
    for note in shown:
        checkpoint = parse_checkpoint(parse_note(note.encode()).text)
        assert checkpoint.root == naive_root(whole[: checkpoint.size])
        assert roots.setdefault(checkpoint.size, checkpoint.root) == checkpoint.root
    assert max(roots) == len(whole) == 4 * 307
    assert list(check_tree(sql)) == []
    assert [origin for [origin] in sql.execute("select origin from log_origins").fetchall()] == [checkpoint.origin]


@pytest.mark.parametrize("name", NAMES)
def test_the_log_of_a_release_enters_the_tree_through_kills(empty_database_url: str, tmp_path: Path, name: str) -> None:
    """The log was there before there was a tree. It is longer than the kept one, so that it enters in several steps."""
    bring_back(empty_database_url, name)
    signer = signer_at(tmp_path)
    with psycopg.connect(empty_database_url, autocommit=True) as sql:
        fill(sql, 1000)
        migrations.migrate(empty_database_url)
        sequence_all(sql)
        whole = leaves(sql)
        assert tiles(sql) == 0
        run_until_killed("entering", empty_database_url, tmp_path / "erasures.jsonl")
        assert tiles(sql) == 1, "a whole step, and nothing of the next"
        assert latest_checkpoint(sql) is None, "it is not signed before it is whole"
        assert signs(sql, signer)
        kept = latest_checkpoint(sql)
        assert kept is not None
        assert (kept.size, kept.root) == (len(whole), naive_root(whole))
        assert tiles(sql) == len(whole) // 256 == 4
        assert list(check_tree(sql)) == []
