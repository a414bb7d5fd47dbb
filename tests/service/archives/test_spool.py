"""The file of an archive: parts that a tar program reads, of bounded length, and no name on the disk."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.archives import spool as spools
from service.archives.making import Contents, _Maker
from service.archives.spool import ArchiveFull, DiskNearlyFull, LinesInParts, Spool
from service.sql import Query
from tests.support.cluster import TestCluster

MOST = 1 << 20


def whole(spool: Spool) -> bytes:
    """All that is ready, piece by piece."""
    data = b""
    while piece := spool.read(len(data), 700):
        data += piece
    return data


def test_parts_are_read_by_a_tar_program(tmp_path: Path) -> None:
    """Lines go on in a new part where one is full; a part without lines is there too."""
    spool = Spool(tmp_path, MOST)
    spool.modified_at = 1_700_000_000
    lines = [b"%d" % number + b"x" * 100 + b"\n" for number in range(20)]
    parts = LinesInParts(spool, "events", 600)
    parts.write(lines[:7])
    parts.write(lines[7:])
    parts.end()
    LinesInParts(spool, "cases", 600).end()
    spool.add("manifest.json", b"{}")
    spool.finish()
    with tarfile.open(fileobj=io.BytesIO(whole(spool))) as tar:
        files = {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]
        assert {one.mtime for one in tar.getmembers()} == {1_700_000_000}
    assert [*files] == [*(f"events/{n:06}.jsonl" for n in range(1, 5)), "cases/000001.jsonl", "manifest.json"]
    assert b"".join(files[f"events/{n:06}.jsonl"] for n in range(1, 5)) == b"".join(lines)
    assert all(len(data) <= 600 for data in files.values())
    assert [(part.name, part.bytes, part.lines) for part in spool.parts] == [
        (name, len(data), data.count(b"\n")) for name, data in files.items()
    ]
    spool.close()


def test_a_part_is_read_once_it_is_whole(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MOST)
    spool.begin("a")
    spool.write(b"text")
    assert (spool.ready, whole(spool)) == (0, b"")
    spool.end()
    assert spool.ready == 1024
    spool.close()


def test_it_has_no_name_and_its_space_comes_back(tmp_path: Path) -> None:
    """So nothing of it outlives its process, however that ends: there is nothing for a start to remove."""
    spool = Spool(tmp_path, MOST)
    spool.add("a", bytes(100_000))
    assert list(tmp_path.iterdir()) == []
    code = (
        "from service.archives.spool import Spool; import os; Spool(None, 9999).add('b', b'x'); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    assert killed.returncode == -9
    assert list(tmp_path.iterdir()) == []
    spool.close()


def test_it_leaves_the_disk_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a largest size, and stops where the disk is nearly full."""
    spool = Spool(tmp_path, 2000)
    spool.begin("a")
    spool.write(bytes(1000))
    with pytest.raises(ArchiveFull):
        spool.write(bytes(1000))
    spool.end()
    assert spool.parts[0].bytes == 1000
    spool.close()

    spool = Spool(tmp_path, MOST)
    monkeypatch.setattr(spools, "LOOK_BYTES", 1000)

    def full(_: int) -> Any:
        return os.statvfs_result((1, 1, 1, 1, 1, 1, 1, 1, 0, 255))

    monkeypatch.setattr(os, "fstatvfs", full)
    spool.begin("a")
    spool.write(bytes(1000))
    with pytest.raises(DiskNearlyFull):
        spool.write(bytes(1000))
    spool.close()


async def test_a_full_archive_leaves_no_cursor_open(tmp_path: Path, cluster: TestCluster) -> None:
    """It is full within the rows of a query. The collector, which would close the cursor some time, is off."""

    async def at_once(work: Callable[[], Any]) -> Any:
        return work()

    spool = Spool(tmp_path, MOST)
    query = Query(b"select repeat('x', 100000) from generate_series(1, 64)")
    query.file, query.name, query.description = "archives", "many", ""
    with cluster.database() as url:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            maker = _Maker(connection, spool, at_once, Contents("proj"), nullcontext)
            gc.disable()
            try:
                await maker.write("many", query, lambda row: row[0].encode(), may_stop=True)
                found = await (await connection.execute("select name from pg_cursors")).fetchall()
            finally:
                gc.enable()
    spool.close()
    assert found == []
