"""The locks are looked up in a database of advisories, by the answers that pip-audit gets from it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scripts.audit import Advisories, answering
from scripts.pages.licences import pins

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".audit" / "venv" / "bin" / "pip-audit"
CLICK = pins(ROOT / "requirements" / "runtime.txt")["click"]


def advisory(name: str, events: Sequence[dict[str, str]], **more: Any) -> dict[str, Any]:
    """An advisory of the form that OSV exports."""
    where = {"package": {"name": name, "ecosystem": "PyPI"}, "ranges": [{"type": "ECOSYSTEM", "events": [*events]}]}
    return {"id": f"PYSEC-0-{name}", "schema_version": "1.7.0", "summary": "Made up.", "affected": [where], **more}


def exported(file: Path, *advisories: dict[str, Any]) -> Path:
    """A zip as OSV exports it."""
    with zipfile.ZipFile(file, "w") as archive:
        for number, one in enumerate(advisories):
            archive.writestr(f"{number}.json", json.dumps(one))
    return file


@pytest.mark.parametrize(
    ("events", "held", "free"),
    [
        ([{"introduced": "0"}], ["0.1", "99"], []),
        ([{"introduced": "0"}, {"fixed": "2.0"}], ["1.9", "2.0rc1"], ["2.0", "2.0.post1"]),
        ([{"introduced": "1.10"}, {"last_affected": "1.12"}], ["1.10", "1.12"], ["1.9", "1.12.1"]),
        (
            [{"introduced": "3.0"}, {"fixed": "1.5"}, {"introduced": "1.0"}, {"fixed": "3.2"}],
            ["1.0", "1.4", "3.1"],
            ["0.9", "1.5", "2.9", "3.2"],
        ),
        ([{"introduced": "1.0"}, {"fixed": "1.1"}, {"introduced": "1.1"}], ["1.0", "1.1", "2"], ["0.9"]),
        ([{"introduced": "not a version"}, {"fixed": "1"}], [], ["1", "2"]),
    ],
)
def test_a_version_is_in_a_range(
    events: list[dict[str, str]], held: list[str], free: list[str], tmp_path: Path
) -> None:
    known = Advisories(exported(tmp_path / "all.zip", advisory("Some_Package", events)))
    assert [version for version in [*held, *free] if known.of("some-package", version)] == held


def test_listed_versions_count_and_withdrawn_advisories_do_not(tmp_path: Path) -> None:
    """Neither do those of other systems, nor ranges of commits."""
    listed = advisory("one", [])
    listed["affected"][0]["versions"] = ["1.0", "odd"]
    other = advisory("two", [{"introduced": "0"}])
    other["affected"][0]["package"]["ecosystem"] = "npm"
    commits = advisory("three", [{"introduced": "0"}])
    commits["affected"][0]["ranges"][0]["type"] = "GIT"
    gone = advisory("four", [{"introduced": "0"}], withdrawn="2026-01-01T00:00:00Z")
    known = Advisories(exported(tmp_path / "all.zip", listed, other, commits, gone))
    assert [one["id"] for one in known.of("one", "1.0.0")] == ["PYSEC-0-one"]
    assert [name for name in ("one", "two", "three", "four") if known.of(name, "2.0")] == []


def test_a_file_without_advisories_is_refused(tmp_path: Path) -> None:
    """It would call everything fine."""
    with pytest.raises(ValueError, match="has no advisory of PyPI"):
        Advisories(exported(tmp_path / "all.zip"))


def test_a_server_on_loopback_answers_as_the_database_does(tmp_path: Path) -> None:
    known = Advisories(exported(tmp_path / "all.zip", advisory("one", [{"introduced": "0"}])))

    def asked(name: str) -> Any:
        body = json.dumps({"package": {"name": name, "ecosystem": "PyPI"}, "version": "1.0"}).encode()
        return httpx2.post(url, content=body, timeout=10).json()

    with answering(known) as url:
        assert [one["id"] for one in asked("one")["vulns"]] == ["PYSEC-0-one"]
        assert asked("two") == {}


@pytest.mark.skipif(not PROGRAM.is_file(), reason="make audit has not installed pip-audit")
@pytest.mark.parametrize(("name", "code"), [("click", 1), ("nobody-needs-this", 0)])
def test_pip_audit_reads_the_locks(name: str, code: int, tmp_path: Path) -> None:
    """It finds a package of them in the given database, and needs no other."""
    file = exported(tmp_path / "all.zip", advisory(name, [{"introduced": "0"}, {"fixed": "999"}]))
    command = [sys.executable, "-m", "scripts.audit", PROGRAM, file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert (f"click {CLICK}" in " ".join(done.stdout.split())) == (code == 1)
