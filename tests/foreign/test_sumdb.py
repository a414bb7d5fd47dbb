"""A program on Go's `sumdb/note` and `sumdb/tlog` verifies a running service: checkpoint, tiles and proofs (G-169)."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import psycopg
import pytest

from service.tlog.notes import KeyPair
from tests.support.server import SIGNING_KEY, ServerFactory
from tests.support.trees import fill

pytestmark = pytest.mark.foreign

PROGRAM = Path(__file__).parent / "transparency" / "verify.go"
GOPATH = "/usr/share/gocode"  # Debian's golang-golang-x-mod-dev
EVENTS = 70_000
SECONDS = 120.0


def test_go_verifies_checkpoints_tiles_and_proofs(server_factory: ServerFactory, tmp_path: Path) -> None:
    """Of a log with three levels of tiles, full and partial."""
    server = server_factory()
    assert server.database_url is not None
    with psycopg.connect(server.database_url, autocommit=True) as sql:
        [[size]] = sql.execute("select size from log_state").fetchall()
        assert size == 0
        fill(sql, EVENTS)
        [[origin]] = sql.execute("select origin from log_origins").fetchall()
        give_up = time.monotonic() + SECONDS
        while sql.execute("select max(size) from log_checkpoints").fetchall() != [(EVENTS,)]:
            assert time.monotonic() < give_up, server.log()
            time.sleep(0.1)
        leaves = {
            position: bytes(leaf).hex()
            for position, leaf in sql.execute(
                "select i.position, e.leaf from log_index i join events e on e.seq = i.seq where i.position = any(%s)",
                ([1, 256, 65_536, 65_537, 69_999, EVENTS],),
            ).fetchall()
        }
    key, _ = KeyPair.derive(bytes.fromhex(SIGNING_KEY), "log").as_log(origin)
    binary = tmp_path / "verify"
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": GOPATH,
        "GOCACHE": str(tmp_path / "cache"),
        "GOFLAGS": "",
    }
    subprocess.run(["go", "build", "-o", binary, PROGRAM], env=environment, check=True, timeout=300)
    for position, leaf in leaves.items():
        for old in (1, 255, 65_536, EVENTS - 1):
            command = [binary, f"{server.base_url}/v1/log", key.vkey, str(position), leaf, str(old)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            assert done.returncode == 0, done.stderr
            said = done.stdout.split()
            assert (said[0], said[1], said[3:]) == (origin, str(EVENTS), ["1", "true", "true"])
    wrong = subprocess.run(
        [binary, f"{server.base_url}/v1/log", key.vkey, "1", "00" * 32, "1"],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert wrong.returncode != 0
