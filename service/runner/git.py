"""A store of git objects of the runner's own. The customer's checkout is read and never touched.

A repair happens in a clone with nothing but files and history. Afterwards its files count. Its configuration, hooks,
index and commits do not. Every command here has a configuration of its own, written anew, and carries out nothing of a
repair.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

NAME, EMAIL = "service-runner", "service-runner@invalid"
DEPTH = 50
GIT_SECONDS = 600
SHA1_LENGTH = 40
_PASSED = (
    "PATH", "HOME", "TMPDIR", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
    "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
)  # fmt: skip
_OURS = {
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):(?P<path>[^/].*)")


class GitFailed(Exception):
    """A git command failed. The message has the end of its error output."""


class Changed(NamedTuple):
    """One path of a change: its modes before and after, its lines added and removed, the bytes it has now."""

    path: str
    old_mode: str
    new_mode: str
    lines: int
    size: int


class WorkingCopy(NamedTuple):
    """A clone for one repair, and a directory beside it for everything else."""

    tree: Path
    beside: Path


class GitRemote(NamedTuple):
    """The address of the branches, and the header with the token (None for ssh and for paths)."""

    url: str
    header: str | None = None


def _environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**{name: os.environ[name] for name in _PASSED if name in os.environ}, **_OURS, **(more or {})}


def _git(*arguments: str, where: Path, more: Mapping[str, str] | None = None, told: bytes = b"") -> bytes:
    """Run git under a configuration of its own. Raises GitFailed."""
    command = ["git", "-c", "protocol.ext.allow=never", "-c", f"core.hooksPath={os.devnull}", *arguments]
    return _run(command, where, _environment(more), told)


def _run(command: list[str], where: Path, environment: Mapping[str, str], told: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            command, cwd=where, env=dict(environment), input=told, capture_output=True, check=False, timeout=GIT_SECONDS
        )
    except subprocess.TimeoutExpired as late:
        raise GitFailed(f"git {arguments_of(command)} took too long") from late
    if done.returncode != 0:
        raise GitFailed(f"git {arguments_of(command)}: {done.stderr.decode(errors='replace')[-500:].strip()}")
    return done.stdout


def arguments_of(command: list[str]) -> str:
    """The name of a git command, without its values."""
    return next((word for word in command[1:] if word.isalpha() or word.replace("-", "").isalpha()), "")


def ask_checkout(checkout: Path, *arguments: str) -> str:
    """Ask the customer's checkout, under the customer's own configuration, before any repair runs. Raises GitFailed."""
    return _run(["git", *arguments], checkout, os.environ).decode().strip()


def place_of(url: str) -> tuple[str, str] | None:
    """Host and path of an address, in lower case. None for a path on this machine."""
    if "://" not in url and (found := _SCP.fullmatch(url)):
        return found["host"].lower(), _path(found["path"])
    parts = urlsplit(url)
    if parts.scheme in {"", "file"} or parts.hostname is None:
        return None
    return parts.hostname.lower(), _path(parts.path)


def _path(path: str) -> str:
    return path.strip("/").removesuffix(".git").lower()


class Store:
    """The objects of the runs of one checkout, in its git directory."""

    def __init__(self, checkout: Path, remote: str, work: Path | None) -> None:
        """Find the checkout and its remote. Raises GitFailed."""
        common = ask_checkout(checkout, "rev-parse", "--git-common-dir")
        self.home = (checkout / common).resolve() / "service-runner"
        self.home.mkdir(mode=0o700, exist_ok=True)
        url = ask_checkout(checkout, "remote", "get-url", remote) if "/" not in remote else remote
        beside = checkout / url
        self.url = str(beside.resolve()) if place_of(url) is None and "://" not in url and beside.exists() else url
        self._bare = self.home / "objects.git"
        self._work = work

    def prepare(self, remote: GitRemote, branch: str) -> str:
        """Fetch the newest commit of a branch. Raises GitFailed."""
        commit = self.pushed(remote, branch)
        if commit is None:
            raise GitFailed(f"the remote has no branch {branch}")
        self._configure(sha256=len(commit) != SHA1_LENGTH)
        depth = [] if place_of(remote.url) is None else [f"--depth={DEPTH}"]
        target = f"+refs/heads/{branch}:refs/base/{branch}"
        self._remote(remote, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", *depth, remote.url, target)
        return self._in_store("rev-parse", "--verify", f"refs/base/{branch}^{{commit}}").decode().strip()

    def _configure(self, *, sha256: bool | None = None) -> None:
        """Make the store if it is missing, and write its configuration anew. None: the hash it has."""
        config = self._bare / "config"
        made = (self._bare / "HEAD").exists() and config.exists()
        is_sha256 = made and "sha256" in config.read_text()
        if made and sha256 not in (None, is_sha256):
            shutil.rmtree(self._bare)
            made = False
        sha256 = is_sha256 if sha256 is None else sha256
        if not made:
            shape = "--object-format=sha256" if sha256 else "--object-format=sha1"
            _git("init", "--quiet", "--bare", "--template=", shape, str(self._bare), where=self.home)
        extension = "[extensions]\n\tobjectformat = sha256\n" if sha256 else ""
        version = 1 if sha256 else 0
        text = f"[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = true\n{extension}"
        config.write_text(f"{text}[gc]\n\tautoDetach = false\n")
        for name in ("hooks", "info"):
            shutil.rmtree(self._bare / name, ignore_errors=True)

    def _in_store(self, *arguments: str, more: Mapping[str, str] | None = None, told: bytes = b"") -> bytes:
        return _git(*arguments, where=self.home, more={"GIT_DIR": str(self._bare), **(more or {})}, told=told)

    def _remote(self, remote: GitRemote, *arguments: str) -> bytes:
        """Speak to the remote. The header travels in the environment, to its address alone, without redirects."""
        self._configure()
        values = {"http.followRedirects": "false", "credential.helper": ""}
        if remote.header is not None:
            values[f"http.{remote.url}.extraHeader"] = remote.header
        more = {"GIT_CONFIG_COUNT": str(len(values))}
        for index, (name, value) in enumerate(values.items()):
            more |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
        return self._in_store(*arguments, more=more)

    @contextmanager
    def working_copy(self, run_id: str, commit: str) -> Iterator[WorkingCopy]:
        """Check a commit out in a new directory, and remove that afterwards. Raises GitFailed."""
        prefix = f"service-runner-{run_id}-"
        place = self._work or Path(tempfile.gettempdir())
        self._sweep(place, prefix)
        top = Path(tempfile.mkdtemp(prefix=prefix, dir=self._work))
        try:
            tree, beside = top / "tree", top / "beside"
            beside.mkdir()
            shape = "--object-format=sha1" if len(commit) == SHA1_LENGTH else "--object-format=sha256"
            _git("init", "--quiet", "--template=", shape, str(tree), where=top)
            info = tree / ".git" / "objects" / "info"
            info.mkdir(exist_ok=True)
            (info / "alternates").write_text(f"{self._bare / 'objects'}\n")
            if (self._bare / "shallow").exists():
                shutil.copyfile(self._bare / "shallow", tree / ".git" / "shallow")
            _git("checkout", "--quiet", "--detach", commit, where=tree)
            yield WorkingCopy(tree, beside)
        finally:
            _remove(top)

    def _sweep(self, place: Path, prefix: str) -> None:
        """Remove the directories of killed starts of the same run."""
        for left in place.glob(f"{prefix}*"):
            if left.is_dir() and not left.is_symlink() and left.stat().st_uid == os.getuid():
                _remove(left)

    def read_files(self, copy: WorkingCopy, base: str) -> str:
        """Write the files of a working copy as a tree, without ignored ones. Raises GitFailed."""
        where = {"GIT_WORK_TREE": str(copy.tree), "GIT_INDEX_FILE": str(copy.beside / "index")}
        self._configure(sha256=len(base) != SHA1_LENGTH)
        values = {"core.bare": "false", "core.fsmonitor": "false", "core.untrackedCache": "false"}
        settings = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
        more = {"GIT_DIR": str(self._bare), **where}
        _git(*settings, "read-tree", base, where=copy.tree, more=more)
        _git(*settings, "add", "--all", "--", ".", where=copy.tree, more=more)
        return _git(*settings, "write-tree", where=copy.tree, more=more).decode().strip()

    def changes(self, base: str, tree: str) -> list[Changed]:
        """List the changed paths. A rename is two paths, and a binary file has its lines."""
        how = ("-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
        raw = self._in_store("diff-tree", *how, "--raw", "--full-index", "--no-abbrev", base, tree).split(b"\0")
        counted = self._in_store("diff-tree", *how, "--numstat", base, tree)
        lines: dict[bytes, int | None] = {}
        for row in filter(None, counted.split(b"\0")):
            added, removed, path = row.split(b"\t", 2)
            lines[path] = None if b"-" in (added, removed) else int(added) + int(removed)
        found = []
        for told, path in zip(raw[::2], raw[1::2], strict=False):
            old_mode, new_mode, old, new, _ = told.decode().lstrip(":").split(" ")
            size = self._size(new, new_mode)
            many = lines.get(path)
            if many is None:
                many = self._lines(old, old_mode) + self._lines(new, new_mode)
            found.append(Changed(path.decode(errors="surrogateescape"), old_mode, new_mode, many, size))
        return found

    def _size(self, blob: str, mode: str) -> int:
        return int(self._in_store("cat-file", "-s", blob)) if _is_file(mode) else 0

    def _lines(self, blob: str, mode: str) -> int:
        """Lines of a blob. Git or an attribute may call it binary."""
        return len(self._in_store("cat-file", "blob", blob).splitlines()) if _is_file(mode) else 0

    def commit(self, run_id: str, tree: str, base: str, message: str, at: int) -> str:
        """Commit a tree, and keep it under the run's name: the same tree at the same time is the same commit."""
        people = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
            ("NAME", NAME), ("EMAIL", EMAIL), ("DATE", f"{at} +0000"))}  # fmt: skip
        made = self._in_store("commit-tree", tree, "-p", base, "-F", "-", more=people, told=message.encode())
        commit = made.decode().strip()
        self._in_store("update-ref", f"refs/runs/{run_id}", commit)
        return commit

    def diff(self, commit: str) -> str:
        """The change of a commit, as text for people."""
        how = ("--no-color", "--no-renames", "--no-ext-diff", "--no-textconv")
        return self._in_store("diff-tree", "-p", *how, f"{commit}^", commit).decode(errors="replace")

    def has(self, run_id: str, commit: str) -> bool:
        """Whether the store keeps this commit for a run."""
        self._configure()
        try:
            return self._in_store("rev-parse", "--verify", f"refs/runs/{run_id}^{{commit}}").decode().strip() == commit
        except GitFailed:
            return False

    def forget(self, run_id: str) -> None:
        """Keep the commit of a run no longer."""
        if (self._bare / "HEAD").exists():
            self._in_store("update-ref", "-d", f"refs/runs/{run_id}")

    def pushed(self, remote: GitRemote, branch: str) -> str | None:
        """The commit of a branch at the remote, None without the branch. Raises GitFailed."""
        listed = self._remote(remote, "ls-remote", "--quiet", remote.url, f"refs/heads/{branch}").decode()
        return listed.split("\t")[0] or None

    def push(self, remote: GitRemote, branch: str, commit: str) -> None:
        """Create a branch at the remote. An existing one never moves. Raises GitFailed."""
        ref = f"refs/heads/{branch}"
        lease = f"--force-with-lease={ref}:"
        self._remote(remote, "push", "--quiet", "--no-verify", lease, remote.url, f"{commit}:{ref}")


def _is_file(mode: str) -> bool:
    return mode not in {"000000", "160000"}


def _remove(directory: Path) -> None:
    """Remove a directory, unreadable parts included."""

    def allow(function: object, path: str, error: object) -> None:  # noqa: ARG001
        Path(path).parent.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            Path(path).chmod(0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    shutil.rmtree(directory, onerror=allow)


def basic(user: str, token: str) -> str:
    """Make the header with a token for git."""
    return f"Authorization: Basic {base64.b64encode(f'{user}:{token}'.encode()).decode()}"
