"""Commands of git with nothing of a repair in them, and the objects of a run in a store made anew for each use.

No store outlives its use, and none exists while a program of the customer runs. It is filled from the remote and from
sealed files. Each command names the directory, the objects and the index, so that no file there sends git elsewhere.
"""

import base64
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from service.runner.files import NotPlain, make_private, remove

NAME, EMAIL = "service-runner", "service-runner@invalid"
DEPTH = 50
GIT_SECONDS, LOOK_SECONDS = 600, 60
SHA1_LENGTH = 40
ABSENT, FILE, PROGRAM, LINK, REPOSITORY = "000000", "100644", "100755", "120000", "160000"
"""The modes of git."""
_PASSED = ("PATH", "TMPDIR")
_TO_REMOTES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
    "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
)  # fmt: skip
_TO_SSH = ("HOME", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND")
_OURS = {
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file:http:https:ssh",
}
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.protectNTFS": "true",
    "core.protectHFS": "true",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "credential.helper": "",
    "http.followRedirects": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
}
_AS_IT_IS = "* -text !eol -ident -filter !working-tree-encoding\n"
"""Attributes by which a working copy has the very bytes of its objects."""
_WEB = re.compile(
    r"(?P<scheme>https?|ssh)://(?:[^\s/@\\?#]*@)?(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"/(?P<path>[^\s\\?#]+)"
)
_SCP = re.compile(r"(?:[^\s@/:\\]+@)?(?P<host>[A-Za-z0-9.-]+):(?P<path>[^\s/:\\][^\s\\]*)")
_USUAL_PORTS = {"https": "443", "http": "80"}


class GitFailed(Exception):
    """A git command failed. The message has the end of its error output."""


class Changed(NamedTuple):
    """One path of a change: its modes before and after, its lines added and removed, the bytes it has now."""

    path: str
    old_mode: str
    new_mode: str
    lines: int
    size: int


class LeftFile(NamedTuple):
    """One path as a repair left it, other than in the base: its mode, size, and bytes within the bounds."""

    path: bytes
    mode: str
    size: int = 0
    content: bytes | None = b""


class Known(NamedTuple):
    """One path of the base: its mode, its object, and its size (0 of a repository)."""

    mode: str
    object_id: str
    size: int


class GitRemote(NamedTuple):
    """The address of the branches, and the header with the token (None for ssh and for paths)."""

    url: str
    header: str | None = None

    @property
    def is_ssh(self) -> bool:
        """Whether git reaches it with the keys of the user."""
        return self.url.startswith("ssh://") or ("://" not in self.url and _SCP.fullmatch(self.url) is not None)


def _environment(more: Mapping[str, str], passed: Sequence[str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in passed if name in os.environ}
    return {**kept, **_OURS, **_as_variables(_SETTINGS), **more}


def _as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings for the environment of git: no other program sees them in a command."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (name, value) in enumerate(settings.items()):
        variables |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    return variables


def _run(
    arguments: Sequence[str],
    where: Path,
    environment: Mapping[str, str],
    *,
    told: bytes = b"",
    well: Sequence[int] = (0,),
    seconds: float = GIT_SECONDS,
) -> bytes:
    """Run git. Raises GitFailed."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=where,
            env=dict(environment),
            input=told,
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as late:
        raise GitFailed(f"git {arguments[0]} took too long") from late
    except OSError as error:
        raise GitFailed(f"git {arguments[0]}: {error.strerror}") from error
    if done.returncode not in well:
        raise GitFailed(f"git {arguments[0]}: {done.stderr.decode(errors='replace')[-500:].strip()}")
    return done.stdout


class Checkout(NamedTuple):
    """The customer's clone: its address of the branches, the directory of the runner's files, and the clone's own."""

    url: str
    home: Path
    places: list[Path]


def open_checkout(checkout: Path, remote: str) -> Checkout:
    """Ask the customer's checkout, under the customer's own configuration. It gives an address, and is not believed.

    Raises GitFailed, NotPlain.
    """

    def ask(*arguments: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
        return _run(arguments, checkout, kept, seconds=LOOK_SECONDS).decode().strip()

    common = (checkout / ask("rev-parse", "--git-common-dir")).resolve()
    own = (checkout / ask("rev-parse", "--git-dir")).resolve()
    url = ask("remote", "get-url", "--", remote) if "/" not in remote else remote
    beside = checkout / url
    if place_of(url) is None and "://" not in url and beside.exists():
        url = str(beside.resolve())
    home = common / "service-runner"
    make_private(home)
    return Checkout(url, home, [checkout, common, own])


def place_of(url: str) -> tuple[str, str] | None:
    """Host (with a port other than the usual one of the web) and path, in lower case. None for any other address."""
    found = _WEB.fullmatch(url) or (_SCP.fullmatch(url) if "://" not in url else None)
    if found is None:
        return None
    told = found.groupdict()
    usual = _USUAL_PORTS.get(told.get("scheme") or "", told.get("port"))
    port = f":{told['port']}" if told.get("port") not in (None, usual) else ""
    path = str(told["path"]).strip("/").removesuffix(".git").lower()
    return f"{str(told['host']).lower()}{port}", path


class Objects:
    """A store of objects, made anew, with the base of a change. It ends with its use."""

    def __init__(self, bare: Path, remote: GitRemote) -> None:
        self.place = self._bare = bare
        self._remote = remote
        self.base = ""

    def _git(self, *arguments: str, told: bytes = b"", more: Mapping[str, str] | None = None) -> bytes:
        return _run(arguments, self._bare, _environment({**_where(self._bare), **(more or {})}, _PASSED), told=told)

    def begin(self, sha256: bool) -> None:
        """Make the store."""
        _make(self._bare, sha256, bare=True)

    def fetch(self, branch: str, base: str) -> None:
        """Fetch a branch, and stand on one of its commits. Raises GitFailed if it is none of them."""
        target = f"+refs/heads/{branch}:refs/base"
        _ask_remote(self._bare, self._remote, "fetch", *_QUIET_FETCH, f"--depth={DEPTH}", self._remote.url, target)
        if not self._has(base):
            _ask_remote(self._bare, self._remote, "fetch", *_QUIET_FETCH, "--unshallow", self._remote.url, target)
        try:
            self._git("merge-base", "--is-ancestor", base, "refs/base")
        except GitFailed as error:
            raise GitFailed(f"The branch {branch} has the commit {base[:12]} no longer.") from error
        self.base = base

    def fetch_head(self, branch: str, head: str) -> None:
        """Fetch the head of a pull request for a branch, and stand where it left the branch. Raises GitFailed."""
        targets = (f"+refs/heads/{branch}:refs/base", f"{head}:refs/head")
        _ask_remote(self._bare, self._remote, "fetch", *_QUIET_FETCH, f"--depth={DEPTH}", self._remote.url, *targets)
        try:
            left = self._git("merge-base", "refs/base", "refs/head")
        except GitFailed:  # it left the branch before all that was fetched
            _ask_remote(self._bare, self._remote, "fetch", *_QUIET_FETCH, "--unshallow", self._remote.url, *targets)
            left = self._git("merge-base", "refs/base", "refs/head")
        self.base = left.decode().strip()

    def tree(self, commit: str) -> str:
        """The id of the files of a commit."""
        return self._git("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()

    def listed(self, branch: str) -> str | None:
        """The commit of a branch at the remote."""
        told = _ask_remote(self._bare, self._remote, "ls-remote", "--quiet", self._remote.url, f"refs/heads/{branch}")
        found = [row.split("\t") for row in told.decode().splitlines()]
        return next((commit for commit, ref in found if ref == f"refs/heads/{branch}"), None)

    def _has(self, commit: str) -> bool:
        try:
            self._git("cat-file", "-e", f"{commit}^{{commit}}")
        except GitFailed:
            return False
        return True

    def files(self) -> dict[bytes, Known]:
        """Every path of the base."""
        known = {}
        listed = self._git("ls-tree", "-r", "-z", "-l", "--full-tree", self.base)
        for row in filter(None, listed.split(b"\0")):
            told, path = row.split(b"\t", 1)
            mode, _, object_id, size = told.decode().split()
            known[path] = Known(mode, object_id, 0 if size == "-" else int(size))
        return known

    def ignored(self, shadow: Path, paths: Sequence[bytes]) -> set[bytes]:
        """The paths that the `.gitignore` files of a directory cover."""
        if not paths:
            return set()
        settings = _as_variables({**_SETTINGS, "core.bare": "false"})
        more = {**_where(self._bare), **settings, "GIT_WORK_TREE": str(shadow)}
        arguments = ("check-ignore", "--no-index", "--stdin", "-z")
        asked = b"".join(b"./" + path + b"\0" for path in paths)  # none of them begins with a sign of git's own
        told = _run(arguments, shadow, _environment(more, _PASSED), told=asked, well=(0, 1))
        return {path.removeprefix(b"./") for path in filter(None, told.split(b"\0"))}

    def write_tree(self, entries: Sequence[LeftFile]) -> str:
        """Write the base with some paths replaced as a tree: their bytes as they are, without any filter."""
        index = {"GIT_INDEX_FILE": str(self._bare / "written")}
        self._git("read-tree", self.base, more=index)
        gone = [b"0 %s\t%s" % (b"0" * len(self.base), one.path) for one in entries if one.mode == ABSENT]
        come = []
        for one in entries:
            if one.mode != ABSENT:
                assert one.content is not None, "a change beyond the bounds is not written"
                blob = self._git("hash-object", "-w", "--no-filters", "--stdin", told=one.content).strip()
                come.append(b"%s %s\t%s" % (one.mode.encode(), blob, one.path))
        self._git("update-index", "-z", "--index-info", told=b"".join(row + b"\0" for row in gone + come), more=index)
        return self._git("write-tree", more=index).decode().strip()

    def changes(self, tree: str) -> list[Changed]:
        """List the paths that a tree changes. A rename is two paths, and a binary file has its lines."""
        how = ("-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
        raw = self._git("diff-tree", *how, "--raw", "--full-index", "--no-abbrev", self.base, tree).split(b"\0")
        counted = self._git("diff-tree", *how, "--numstat", self.base, tree)
        lines: dict[bytes, int | None] = {}
        for row in filter(None, counted.split(b"\0")):
            added, removed, path = row.split(b"\t", 2)
            lines[path] = None if b"-" in (added, removed) else int(added) + int(removed)
        found = []
        for told, path in zip(raw[::2], raw[1::2], strict=False):
            old_mode, new_mode, old, new, _ = told.decode().lstrip(":").split(" ")
            size = int(self._git("cat-file", "-s", new)) if _is_file(new_mode) else 0
            many = lines.get(path)
            if many is None:
                many = self._lines(old, old_mode) + self._lines(new, new_mode)
            found.append(Changed(path.decode(errors="surrogateescape"), old_mode, new_mode, many, size))
        return found

    def _lines(self, blob: str, mode: str) -> int:
        """Lines of a blob. Git or an attribute may call it binary."""
        return len(self._git("cat-file", "blob", blob).splitlines()) if _is_file(mode) else 0

    def commit(self, tree: str, message: str, at: int) -> str:
        """Commit a tree on the base. The same tree at the same time is the same commit."""
        people = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
            ("NAME", NAME), ("EMAIL", EMAIL), ("DATE", f"{at} +0000"))}  # fmt: skip
        made = self._git("commit-tree", tree, "-p", self.base, "-F", "-", more=people, told=message.encode())
        return made.decode().strip()

    def parents(self, commit: str) -> list[str]:
        """The parents of a commit. Raises GitFailed if it is not here."""
        return self._git("rev-list", "--parents", "--max-count=1", commit, "--").decode().split()[1:]

    def diff(self, commit: str) -> str:
        """The change of a commit, as text for people."""
        how = ("--no-color", "--no-renames", "--no-ext-diff", "--no-textconv")
        return self._git("diff-tree", "-p", *how, self.base, commit).decode(errors="replace")

    def patch_id(self, commit: str) -> str | None:
        """The id of the change of a commit, which a rebase leaves as it is. None for one that git gives no id."""
        how = ("--no-color", "--no-renames", "--no-ext-diff", "--no-textconv", "--full-index")
        told = self._git("diff-tree", "-p", *how, self.base, commit)
        named = self._git("patch-id", "--stable", told=told).decode().split()
        return named[0] if named else None

    def pack(self, commit: str) -> bytes:
        """What a commit adds to the base, as one file."""
        wanted = f"{commit}\n^{self.base}\n".encode()
        return self._git("pack-objects", "--quiet", "--revs", "--stdout", told=wanted)

    def unpack(self, packed: bytes) -> None:
        """Take the objects of such a file in. Raises GitFailed."""
        self._git("unpack-objects", "-q", "--strict", told=packed)

    def push(self, branch: str, commit: str) -> None:
        """Create a branch at the remote. An existing one never moves. Raises GitFailed."""
        ref = f"refs/heads/{branch}"
        how = ("--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", f"--force-with-lease={ref}:")
        _ask_remote(self._bare, self._remote, "push", *how, self._remote.url, f"{commit}:{ref}")


_QUIET_FETCH = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")


def _where(bare: Path) -> dict[str, str]:
    """Each place that git would otherwise learn from files."""
    return {
        "GIT_DIR": str(bare),
        "GIT_COMMON_DIR": str(bare),
        "GIT_OBJECT_DIRECTORY": str(bare / "objects"),
        "GIT_INDEX_FILE": str(bare / "index"),  # where there is none, no attribute in it counts
        "HOME": str(bare),
    }


def _make(place: Path, sha256: bool, *, bare: bool) -> None:
    shape = f"--object-format={'sha256' if sha256 else 'sha1'}"
    kind = ("--bare",) if bare else ()
    made = _environment({"HOME": str(place)}, _PASSED)
    _run(("init", "--quiet", *kind, "--template=", shape, str(place)), place, made)


def _ask_remote(bare: Path, remote: GitRemote, *arguments: str) -> bytes:
    """Speak to the remote. The header travels in the environment, to its address alone, without redirects."""
    settings = dict(_SETTINGS)
    if remote.header is not None:
        settings[f"http.{remote.url}.extraHeader"] = remote.header
    passed = (*_PASSED, *_TO_REMOTES, *(_TO_SSH if remote.is_ssh else ()))
    where = _where(bare)
    if remote.is_ssh:
        del where["HOME"]
    return _run(arguments, bare, _environment({**_as_variables(settings), **where}, passed))


class Store:
    """Where stores and working copies are made: the first in the runner's directory, the others outside of it."""

    def __init__(self, home: Path, work: Path | None) -> None:
        """Remove the stores of killed starts. Nobody else may work in the directory. Raises OSError."""
        self.home = home
        self.work = work or Path(tempfile.gettempdir())
        for left in home.iterdir():
            if left.name not in {"lock", "runs"}:
                remove(left)

    @contextmanager
    def _empty(self, remote: GitRemote, sha256: bool) -> Iterator[Objects]:
        place = Path(tempfile.mkdtemp(prefix="store-", dir=self.home))
        try:
            objects = Objects(place, remote)
            objects.begin(sha256)
            yield objects
        finally:
            with suppress(OSError, NotPlain):
                remove(place)

    @contextmanager
    def objects(self, remote: GitRemote, branch: str, base: str) -> Iterator[Objects]:
        """Make a store with a branch of the remote, on one of its commits. Raises GitFailed."""
        with self._empty(remote, len(base) != SHA1_LENGTH) as objects:
            objects.fetch(branch, base)
            yield objects

    def names(self, remote: GitRemote, branch: str, head: str) -> tuple[str, str | None]:
        """Git's ids of the tree and of the change of a pull request for a branch. Raises GitFailed."""
        with self._empty(remote, len(head) != SHA1_LENGTH) as objects:
            objects.fetch_head(branch, head)
            return objects.tree(head), objects.patch_id(head)

    def head(self, remote: GitRemote, branch: str) -> str | None:
        """The commit of a branch at the remote, None without the branch. Raises GitFailed."""
        with self._empty(remote, sha256=False) as objects:
            return objects.listed(branch)

    def fill(self, tree: Path, remote: GitRemote, branch: str, commit: str) -> None:
        """Make a clone of a branch in an empty directory, with nothing but files and history. Raises GitFailed."""
        _make(tree, len(commit) != SHA1_LENGTH, bare=False)
        inner = tree / ".git"
        target = f"+refs/heads/{branch}:refs/base"
        _ask_remote(inner, remote, "fetch", *_QUIET_FETCH, f"--depth={DEPTH}", remote.url, target)
        (inner / "info").mkdir(exist_ok=True)
        (inner / "info" / "attributes").write_text(_AS_IT_IS)
        settings = _as_variables({**_SETTINGS, "core.bare": "false"})
        more = {**_where(inner), **settings, "GIT_WORK_TREE": str(tree)}
        _run(("checkout", "--quiet", "--detach", commit), tree, _environment(more, _PASSED))
        _run(("update-ref", "-d", "refs/base"), tree, _environment(more, _PASSED))


def _is_file(mode: str) -> bool:
    return mode not in {ABSENT, REPOSITORY}


def basic(user: str, token: str) -> str:
    """Make the header with a token for git."""
    return f"Authorization: Basic {base64.b64encode(f'{user}:{token}'.encode()).decode()}"
