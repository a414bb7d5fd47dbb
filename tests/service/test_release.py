"""Version and commit of the release, in the command line and in the schema document (R-VER-01)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from service import release
from service.cli import main
from service.http.app import schema_documents

ROOT = Path(__file__).parents[2]


def git(*words: str, at: Path) -> str:
    return subprocess.run(["git", *words], cwd=at, capture_output=True, text=True, check=True).stdout.strip()


def test_a_checkout_tells_its_commit() -> None:
    """The command line and the document say the same."""
    commit = git("rev-parse", "HEAD", at=ROOT)
    version = release.VERSION
    assert CliRunner().invoke(main, ["--version"]).stdout == f"{version} (commit {commit})\n"
    info = schema_documents().at("https://service.example")["info"]
    assert (info["x-service-version"], info["x-service-commit"]) == (version, commit)


def test_a_build_tells_the_commit_that_was_written_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever repository it lies in; a damaged file says nothing."""
    monkeypatch.setattr(release.resources, "files", lambda _: tmp_path)
    for written, told in (
        ("a1" * 20 + "\n", "a1" * 20),
        ("a1" * 32, "a1" * 32),
        ("main\n", "unknown"),
        ("", "unknown"),
    ):
        (tmp_path / release.BUILT).write_text(written)
        release.commit.cache_clear()
        assert release.commit() == told
    release.commit.cache_clear()


def test_without_a_repository_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is that of a repository told which the folder merely lies in, nor anything without git."""
    inside = tmp_path / "inside"
    inside.mkdir()
    git("init", "--quiet", at=tmp_path)
    assert release._commit_of(inside) == release._commit_of(tmp_path) == ""
    monkeypatch.setenv("PATH", str(inside))
    assert release._commit_of(ROOT) == ""
