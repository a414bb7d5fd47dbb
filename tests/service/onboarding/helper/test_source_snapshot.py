"""The snapshot helper, run by node, against the algorithm written a second time here (G-083)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.onboarding import ProofRequest, SourceSnapshot
from service.onboarding import helper as onboarding_helper

HELPER = Path(onboarding_helper.__file__).parent / onboarding_helper.FILE
COMMITTER = {f"GIT_{who}_{what}": "t@example.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CEILING_DIRECTORIES": "/",
    **COMMITTER,
}


def run_helper(directory: Path, *args: str, path: str | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = ENVIRONMENT | ({"PATH": path} if path is not None else {})
    node = subprocess.run(["which", "node"], capture_output=True, check=True).stdout.strip().decode()
    return subprocess.run(
        [node, str(HELPER), *args], cwd=directory, env=environment, capture_output=True, check=False, timeout=60
    )


def snapshot(directory: Path, *args: str, path: str | None = None) -> Any:
    """Run the helper and return its object; nothing else may be on standard output."""
    run = run_helper(directory, *args, path=path)
    assert run.returncode == 0, run.stderr
    assert run.stderr == b""
    found = json.loads(run.stdout)
    assert run.stdout == json.dumps(found, separators=(",", ":")).encode() + b"\n"
    assert list(found) == ["git_head_sha", "source_fingerprint_sha256", "source_fingerprint_algorithm"]
    msgspec.convert(found, SourceSnapshot)
    msgspec.convert({"implementation_source_snapshot": found}, ProofRequest)
    return found


def git(directory: Path, *args: str) -> str:
    run = subprocess.run(["git", *args], cwd=directory, env=ENVIRONMENT, capture_output=True, check=True)
    return run.stdout.decode().strip()


def repository(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    return directory


def commit(directory: Path) -> str:
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "--allow-empty", "-m", "work")
    return git(directory, "rev-parse", "HEAD")


def fingerprint(files: dict[bytes, bytes]) -> str:
    """Compute the algorithm over contents by path: what G-083 says, and nothing of the helper."""
    lines = b"".join(path + b"\0" + hashlib.sha256(files[path]).hexdigest().encode() + b"\n" for path in sorted(files))
    return hashlib.sha256(lines).hexdigest()


def write(directory: Path, files: dict[bytes, bytes]) -> None:
    for path, content in files.items():
        file = directory / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


ODD: dict[bytes, bytes] = {
    b"README.md": b"hello\r\n",
    b"empty": b"",
    b"src/a.ts": b"export {}\n",
    b"src/a-b.ts": b"-",  # sorts before src/a.ts by bytes, after it by words
    b"src/a/b.ts": b"/",
    "src/Zoë ü.ts".encode(): "ü".encode(),
    "src/\U0001f600".encode(): b"astral: UTF-8 and UTF-16 order differ",
    "src/\uffee".encode(): b"last of the basic plane",
    b"new\nline": b"1",
    b'quo"te\\back': b"2",
    b" space ": b"3",
    b"-dash": b"4",
    b"not-utf8-\xff\xfe": b"5",
    b"bin": bytes(range(256)) * 5000,
}


def test_an_odd_tree_in_git(tmp_path: Path) -> None:
    """Tracked and untracked files count, ignored ones do not; names are bytes and sorted as such."""
    root = repository(tmp_path / "repo")
    write(root, ODD | {b".gitignore": b"ignored/\n*.log\n"})
    sha = commit(root)
    write(root, {b"untracked.txt": b"u", b"ignored/x": b"i", b"src/y.log": b"l", b"node_modules/m/i.js": b"m"})
    expected = ODD | {
        b".gitignore": b"ignored/\n*.log\n",
        b"untracked.txt": b"u",
        b"node_modules/m/i.js": b"m",  # nobody ignored it here
    }
    assert snapshot(root) == {
        "git_head_sha": sha,
        "source_fingerprint_sha256": fingerprint(expected),
        "source_fingerprint_algorithm": "service-source-tree-sha256-v1",
    }


def test_it_does_not_matter_where_in_the_repository_it_runs(tmp_path: Path) -> None:
    """Paths count from the top of the repository."""
    root = repository(tmp_path / "repo")
    write(root, ODD)
    commit(root)
    assert snapshot(root) == snapshot(root / "src") == snapshot(root / "src" / "a")
    assert snapshot(root)["source_fingerprint_sha256"] == fingerprint(ODD)


def test_a_symbolic_link_is_the_text_of_its_target(tmp_path: Path) -> None:
    """Links are not followed: dangling ones, ones to directories and ones out of the tree are their text."""
    root = repository(tmp_path / "repo")
    write(root, {b"real/file": b"content"})
    links = {b"to-file": b"real/file", b"to-dir": b"real", b"dangling": b"nowhere/\xff", b"outside": b"/etc/passwd"}
    for name, where in links.items():
        (root / os.fsdecode(name)).symlink_to(os.fsdecode(where))
    expected = fingerprint({b"real/file": b"content", **links})
    assert snapshot(root)["source_fingerprint_sha256"] == expected
    commit(root)
    assert snapshot(root, "--final")["source_fingerprint_sha256"] == expected


def test_what_is_no_regular_file_does_not_count(tmp_path: Path) -> None:
    """Deleted paths, nested repositories, submodules and pipes contribute nothing."""
    root = repository(tmp_path / "repo")
    write(root, {b"kept": b"k", b"deleted": b"d", b"replaced": b"r"})
    commit(root)
    (root / "deleted").unlink()
    (root / "replaced").unlink()
    (root / "replaced").mkdir()
    nested = repository(root / "nested")
    write(nested, {b"inner": b"i"})
    commit(nested)
    os.mkfifo(root / "pipe")
    assert snapshot(root)["source_fingerprint_sha256"] == fingerprint({b"kept": b"k"})


def test_a_path_in_conflict_counts_once(tmp_path: Path) -> None:
    """The index lists each side of a conflict; the file in the tree is one."""
    root = repository(tmp_path / "repo")
    write(root, {b"file": b"base\n"})
    commit(root)
    git(root, "checkout", "-q", "-b", "other")
    write(root, {b"file": b"theirs\n"})
    commit(root)
    git(root, "checkout", "-q", "main")
    write(root, {b"file": b"ours\n"})
    commit(root)
    with pytest.raises(subprocess.CalledProcessError):
        git(root, "merge", "other")
    content = (root / "file").read_bytes()
    assert snapshot(root)["source_fingerprint_sha256"] == fingerprint({b"file": content})


def test_outside_git_all_files_count(tmp_path: Path) -> None:
    """Without a repository: everything below the working directory but .git and node_modules, and no commit."""
    write(tmp_path, ODD | {b"node_modules/a": b"x", b"deep/node_modules/b": b"x", b"deep/kept": b"k", b"a.log": b"l"})
    (tmp_path / "link").symlink_to("deep")
    expected = fingerprint(ODD | {b"deep/kept": b"k", b"a.log": b"l", b"link": b"deep"})
    assert snapshot(tmp_path) == {
        "git_head_sha": None,
        "source_fingerprint_sha256": expected,
        "source_fingerprint_algorithm": "service-source-tree-sha256-v1",
    }


def test_without_a_git_program_it_walks(tmp_path: Path) -> None:
    """Where git is not installed, the files below the working directory count, its own directory excepted."""
    root = repository(tmp_path / "repo")
    write(root, {b"a": b"1", b".gitignore": b"ignored\n", b"ignored": b"2"})
    found = snapshot(root, path=str(tmp_path / "nothing"))
    assert found["git_head_sha"] is None
    assert found["source_fingerprint_sha256"] == fingerprint(
        {b"a": b"1", b".gitignore": b"ignored\n", b"ignored": b"2"}
    )


def test_an_empty_tree(tmp_path: Path) -> None:
    """No files: the hash of nothing."""
    assert snapshot(tmp_path)["source_fingerprint_sha256"] == hashlib.sha256(b"").hexdigest()


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    """Before the first commit there is a tree and no commit to name; a final snapshot needs one."""
    root = repository(tmp_path / "repo")
    write(root, {b"a": b"1"})
    found = snapshot(root)
    assert (found["git_head_sha"], found["source_fingerprint_sha256"]) == (None, fingerprint({b"a": b"1"}))
    assert refused(root, "--final")


def refused(directory: Path, *args: str, path: str | None = None) -> str:
    """Run the helper where it has to refuse; returns what it says."""
    run = run_helper(directory, *args, path=path)
    assert run.returncode == 1
    assert run.stdout == b""
    assert run.stderr.startswith(b"source-snapshot: ")
    assert b"at file://" not in run.stderr, "a refusal is a sentence, not a stack"
    return run.stderr.decode()


@pytest.mark.parametrize("change", ["untracked", "modified", "staged", "deleted", "renamed", "mode", "hidden"])
def test_final_needs_a_clean_tree(tmp_path: Path, change: str) -> None:
    """Any change at all makes a tree dirty; committing it makes it final."""
    root = repository(tmp_path / "repo")
    write(root, {b"a": b"1", b"dir/b": b"2", b".gitignore": b"ignored\n"})
    commit(root)
    assert snapshot(root, "--final") == snapshot(root)
    write(root, {b"ignored": b"does not matter"})
    assert snapshot(root, "--final") == snapshot(root)
    match change:
        case "untracked":
            write(root, {b"new/file": b"n"})
        case "modified":
            write(root, {b"a": b"changed"})
        case "staged":
            write(root, {b"a": b"changed"})
            git(root, "add", "a")
        case "deleted":
            (root / "a").unlink()
        case "renamed":
            git(root, "mv", "a", "c")
        case "mode":
            (root / "a").chmod(0o755)
        case _:
            git(root, "config", "status.showUntrackedFiles", "no")
            write(root, {b"new": b"n"})
    assert "clean" in refused(root, "--final")
    assert "clean" in refused(root / "dir", "--final")
    sha = commit(root)
    assert snapshot(root, "--final")["git_head_sha"] == sha


def test_final_needs_git(tmp_path: Path) -> None:
    """There is no final snapshot of something that has no history."""
    assert "git" in refused(tmp_path, "--final")
    assert "git" in refused(tmp_path, "--final", path=str(tmp_path))


def test_a_repository_that_git_will_not_read_is_not_walked(tmp_path: Path) -> None:
    """A broken repository is an error; another fingerprint would pass for a snapshot of it."""
    root = repository(tmp_path / "repo")
    (root / ".git" / "config").write_text("[core\nbroken")
    assert "git" in refused(root)


@pytest.mark.parametrize("args", [["--Final"], ["--final", "x"], ["--help"], [""]])
def test_other_arguments_are_refused(tmp_path: Path, args: list[str]) -> None:
    """The helper has one option."""
    assert "usage" in refused(tmp_path, *args)


def test_it_runs_from_standard_input(tmp_path: Path) -> None:
    """Fetched and piped into node it is the same program: it needs nothing beside itself."""
    write(tmp_path, {b"a": b"1"})
    run = subprocess.run(
        ["node", "--input-type=module", "-"],
        input=HELPER.read_bytes(),
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(run.stdout) == snapshot(tmp_path)


def test_the_served_module_has_a_strong_tag() -> None:
    """The tag is the hash of the bytes: it changes with them and with nothing else."""
    module = onboarding_helper.load_module()
    assert module.body == HELPER.read_bytes()
    assert module.etag == f'"{hashlib.sha256(module.body).hexdigest()}"'
    imports = [line for line in module.body.decode().splitlines() if line.startswith("import ")]
    assert all(" from 'node:" in line for line in imports)
