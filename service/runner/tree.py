"""The working copy of one repair, and the change in it: read file by file, by nothing that the repair could configure.

Git is not asked about the copy. Its repository, index, attributes and filters belong to the repair by then.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from service.runner.bounds import MAX_BYTES
from service.runner.files import NotPlain, SeenFile, directory, listed, open_below, read_below, read_link, remove
from service.runner.git import ABSENT, FILE, LINK, PROGRAM, REPOSITORY, GitRemote, Known, LeftFile, Objects, Store

MAX_RULES_BYTES = 1024 * 1024
MAX_ENTRIES = 10_000
_PIECE = 1024 * 1024


class WorkingCopy(NamedTuple):
    """A clone for one repair, a directory beside it for everything else, and the open directory of both."""

    tree: Path
    beside: Path
    top: int


@contextmanager
def working_copy(store: Store, run_id: str, remote: GitRemote, branch: str, commit: str) -> Iterator[WorkingCopy]:
    """Check a commit out in a new directory, and remove that afterwards. Raises GitFailed."""
    prefix = f"service-runner-{run_id}-"
    _sweep(store.work, prefix)
    top = Path(tempfile.mkdtemp(prefix=prefix, dir=store.work))
    try:
        with directory(top) as number:
            tree, beside = top / "tree", top / "beside"
            tree.mkdir()
            beside.mkdir()
            store.fill(tree, remote, branch, commit)
            yield WorkingCopy(tree, beside, number)
    finally:
        with suppress(OSError, NotPlain):
            remove(top)


def _sweep(place: Path, prefix: str) -> None:
    """Remove the directories of killed starts of the same run."""
    for left in place.glob(f"{prefix}*"):
        with suppress(OSError, NotPlain):
            if left.lstat().st_uid == os.geteuid():
                remove(left)


def read_beside(copy: WorkingCopy, name: str, most: int) -> bytes:
    """Read a file beside the copy, which the repair may have replaced. Raises NotPlain, FileNotFoundError."""
    return read_below(copy.top, b"beside/" + name.encode(), most)


def read_change(copy: WorkingCopy, objects: Objects) -> list[LeftFile]:
    """List the paths that differ from the base. Ignored ones stay behind.

    A file has its bytes while all together fit the bounds, and `None` beyond. Raises NotPlain, OSError, GitFailed.
    """
    with tempfile.TemporaryDirectory(dir=objects.place) as shadow:
        return _Reading(copy, objects, Path(shadow)).read()


class _Reading:
    """One look at the files of a working copy, level by level."""

    def __init__(self, copy: WorkingCopy, objects: Objects, shadow: Path) -> None:
        self._top = os.open(b"tree", os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=copy.top)
        self._objects = objects
        self._known = objects.files()
        self._shadow = shadow
        self._directories = {parent for path in self._known for parent in _parents(path)}
        self._missing = set(self._known)
        self._left = MAX_BYTES
        self._entries: list[LeftFile] = []

    def read(self) -> list[LeftFile]:
        """Return the difference, sorted by path."""
        try:
            level = [b""]
            while level:
                level = self._read_level(level)
        finally:
            os.close(self._top)
        self._entries += [LeftFile(path, ABSENT) for path in self._missing]
        return sorted(self._entries)

    def _read_level(self, level: list[bytes]) -> list[bytes]:
        """Read directories of one depth. Returns those below them."""
        below: list[bytes] = []
        unknown: list[SeenFile] = []
        for path in level:
            inside = [one for one in listed(self._top, path) if one.path != b".git"]
            if path and self._is_repository(path, inside):
                continue
            self._copy_rules(path)
            for one in inside:
                if stat.S_ISDIR(one.mode) and (one.path in self._directories or one.path in self._known):
                    below.append(one.path)
                elif one.path in self._known:
                    self._compare(one, self._known[one.path])
                else:
                    unknown.append(one)
        for one in unknown:
            if stat.S_ISDIR(one.mode):
                self._shadowed(one.path).mkdir(parents=True, exist_ok=True)
        ignored = self._objects.ignored(self._shadow, [one.path for one in unknown])
        for one in unknown:
            if one.path in ignored:
                continue
            if stat.S_ISDIR(one.mode):
                below.append(one.path)
            else:
                self._add(one)
        return below

    def _is_repository(self, path: bytes, inside: list[SeenFile]) -> bool:
        """Whether a directory is one of git's own, or stands in place of one: that is no directory of files."""
        known = self._known.get(path)
        if known is not None and known.mode == REPOSITORY and not inside:
            self._missing.discard(path)
            return True
        if any(one.path.rpartition(b"/")[2].lower() == b".git" for one in inside) or (
            known is not None and known.mode == REPOSITORY
        ):
            self._missing = {one for one in self._missing if one != path and not one.startswith(path + b"/")}
            self._keep(LeftFile(path, REPOSITORY))
            return True
        return False

    def _shadowed(self, path: bytes) -> Path:
        return self._shadow / os.fsdecode(path)

    def _copy_rules(self, path: bytes) -> None:
        """Copy the `.gitignore` of a directory to where git may look at it: a plain file of a bounded size."""
        name = path + b"/.gitignore" if path else b".gitignore"
        self._shadowed(path).mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError, NotPlain):
            self._shadowed(name).write_bytes(read_below(self._top, name, MAX_RULES_BYTES))

    def _compare(self, one: SeenFile, known: Known) -> None:
        """Look whether a known path is as in the base."""
        self._missing.discard(one.path)
        if _mode(one) == known.mode and self._same(one, known):
            return
        self._add(one)

    def _same(self, one: SeenFile, known: Known) -> bool:
        """Whether the bytes are those of an object. A longer file is not read."""
        if one.size != known.size:
            return False
        told = hashlib.new("sha256" if len(known.object_id) > len(hashlib.sha1().hexdigest()) else "sha1")  # noqa: S324
        told.update(b"blob %d\0" % known.size)
        if known.mode == LINK:
            told.update(read_link(self._top, one.path))
        else:
            with os.fdopen(open_below(self._top, one.path), "rb") as file:
                left = known.size
                while left and (piece := file.read(min(left, _PIECE))):
                    told.update(piece)
                    left -= len(piece)
        return told.hexdigest() == known.object_id

    def _add(self, one: SeenFile) -> None:
        mode = _mode(one)
        if mode == LINK:
            text = read_link(self._top, one.path)
            self._keep(LeftFile(one.path, mode, len(text), text))
        elif mode not in {FILE, PROGRAM}:
            self._keep(LeftFile(one.path, mode, 0, None))
        elif one.size > self._left:
            self._left = 0
            self._keep(LeftFile(one.path, mode, one.size, None))
        else:
            content = read_below(self._top, one.path, self._left)
            self._left -= len(content)
            self._keep(LeftFile(one.path, mode, len(content), content))

    def _keep(self, entry: LeftFile) -> None:
        self._entries.append(entry)
        if len(self._entries) > MAX_ENTRIES:
            raise NotPlain(f"More than {MAX_ENTRIES} files changed.")


def _parents(path: bytes) -> Iterator[bytes]:
    while (path := path.rpartition(b"/")[0]) != b"":
        yield path


def _mode(one: SeenFile) -> str:
    """The mode that git gives to an entry of a directory. Git has none for pipes, sockets and devices."""
    if stat.S_ISLNK(one.mode):
        return LINK
    if stat.S_ISREG(one.mode):
        return PROGRAM if one.mode & stat.S_IXUSR else FILE
    return f"{stat.S_IFMT(one.mode):06o}"
