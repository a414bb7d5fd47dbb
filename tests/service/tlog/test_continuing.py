"""`service log continue`: a restored log gets a new origin, which names the old one, and is signed on (G-169)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.tlog.signing import NothingToContinue, Verdict, continue_log
from service.tlog.tree import latest_checkpoint
from tests.service.tlog.test_tree import forked, restored
from tests.support.trees import fill, sign_all, signer_at

Sql = psycopg.Connection[Any]


def test_a_restored_log_is_signed_under_a_new_origin(sql: Sql, tmp_path: Path) -> None:
    fill(sql, 300)
    signer = signer_at(tmp_path)
    sign_all(sql, signer)
    first = latest_checkpoint(sql)
    assert first is not None
    with pytest.raises(NothingToContinue):
        continue_log(sql, signer.file)
    restored(sql)
    assert sign_all(sql, signer) == (Verdict.SHORTER, f"300 events were signed as {first.origin}, and this log has 200")
    done = continue_log(sql, signer.file)
    old = first.origin.removeprefix("service.invalid/log/")
    assert done.origin.startswith("service.invalid/log/")
    assert done.origin.endswith(f"/after/{old}")
    assert (done.last.origin, done.last.size, done.last.root) == (first.origin, 300, first.root)
    standing = sign_all(sql, signer)
    assert standing is None or standing.signs
    later = latest_checkpoint(sql)
    assert later is not None
    assert (later.origin, later.size) == (done.origin, 200)
    with pytest.raises(NothingToContinue):
        continue_log(sql, signer.file)
    rows = sql.execute("select continues, at_size, at_root from log_origins where number = 2").fetchall()
    assert rows == [(first.origin, 300, first.root)]


def test_a_second_restore_names_the_origin_before_it(sql: Sql, tmp_path: Path) -> None:
    fill(sql, 300)
    signer = signer_at(tmp_path)
    sign_all(sql, signer)
    restored(sql)
    middle = continue_log(sql, signer.file).origin
    fill(sql, 200, mark="again")
    sign_all(sql, signer)
    forked(sql)
    last = continue_log(sql, signer.file)
    assert last.last.origin == middle
    assert last.origin.endswith(middle.split("/after/")[0].removeprefix("service.invalid/log"))
    assert len(last.origin) == len(middle)


def test_an_unreadable_file_is_put_aside(sql: Sql, tmp_path: Path) -> None:
    signer = signer_at(tmp_path)
    sign_all(sql, signer)
    signer.file.path.write_text("half a line")
    assert continue_log(sql, signer.file).standing.verdict is Verdict.UNREADABLE
    assert signer.file.path.with_name("erasures.checkpoint.unreadable").read_text() == "half a line"
    standing = sign_all(sql, signer)
    assert standing is None or standing.signs
    assert signer.file.read() is not None


def test_a_host_whose_file_is_behind_signs_along(sql: Sql, tmp_path: Path) -> None:
    """Two hosts with ledgers of their own: the other one has seen an earlier checkpoint of the old origin."""
    one, two = signer_at(tmp_path / "one"), signer_at(tmp_path / "two")
    fill(sql, 100)
    sign_all(sql, two)
    fill(sql, 200)
    sql.execute("select pg_sleep(0.21)")
    sign_all(sql, one)
    restored(sql)
    continue_log(sql, one.file)
    for signer in (two, one):
        fill(sql, 1, mark="later")
        sql.execute("select pg_sleep(0.21)")
        standing = sign_all(sql, signer)
        assert standing is None or standing.signs
