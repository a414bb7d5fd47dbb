"""Files that a program may have put anything in place of: read without links, without waiting, and within bounds."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
MAX_PATH_BYTES = 3000
"""The longest path below a directory. The system ends at 4,096 with the directory itself."""


class NotPlain(Exception):
    """Something else is in the place of a file or a directory: a link, a pipe, or too much of it."""


class SeenFile(NamedTuple):
    """An entry of a directory: its path below the top in bytes, its kind and its size."""

    path: bytes
    mode: int
    size: int


@contextmanager
def directory(path: Path) -> Iterator[int]:
    """Open a directory that is no link. Raises NotPlain."""
    try:
        number = os.open(path, _DIRECTORY)
    except OSError as error:
        raise NotPlain(f"{path} is no directory of the runner's.") from error
    try:
        yield number
    finally:
        os.close(number)


def make_private(path: Path) -> None:
    """Make a directory for this user alone, or see that it is one. Raises NotPlain."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    with directory(path) as number:
        if os.fstat(number).st_uid != os.geteuid():
            raise NotPlain(f"{path} belongs to another user.")
        os.fchmod(number, 0o700)


@contextmanager
def _parent(top: int, path: bytes) -> Iterator[tuple[int, bytes]]:
    """Open the directory of a path below another, link by link: none of them is followed. Raises OSError."""
    *parts, name = path.split(b"/")
    number = os.dup(top)
    try:
        for part in parts:
            inner = os.open(part, _DIRECTORY, dir_fd=number)
            os.close(number)
            number = inner
        yield number, name
    finally:
        os.close(number)


def open_below(top: int, path: bytes, flags: int = _PLAIN) -> int:
    """Open a regular file below a directory. Raises NotPlain, FileNotFoundError."""
    try:
        with _parent(top, path) as (parent, name):
            number = os.open(name, flags, 0o600, dir_fd=parent)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise NotPlain(f"{os.fsdecode(path)!r} is no regular file.") from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise NotPlain(f"{os.fsdecode(path)!r} is no regular file.")
    return number


def read_below(top: int, path: bytes, most: int) -> bytes:
    """Read a regular file of a size up to `most` bytes. Raises NotPlain, FileNotFoundError."""
    with os.fdopen(open_below(top, path), "rb") as file:
        read = file.read(most + 1)
    if len(read) > most:
        raise NotPlain(f"{os.fsdecode(path)!r} has more than {most} bytes.")
    return read


def read_link(top: int, path: bytes) -> bytes:
    """The text of a link below a directory. Raises OSError."""
    with _parent(top, path) as (parent, name):
        return os.readlink(name, dir_fd=parent)


def write_whole(place: Path, name: str, content: bytes) -> None:
    """Replace a file in a directory: it is whole and on the disk, or as before. Raises NotPlain, OSError."""
    with directory(place) as top:
        new = f".{name}.new"
        with suppress(FileNotFoundError):
            os.unlink(new, dir_fd=top)
        number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=top)
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, name, src_dir_fd=top, dst_dir_fd=top)
        os.fsync(top)


def listed(top: int, path: bytes = b"") -> list[SeenFile]:
    """The entries of a directory below another, sorted by name. Raises OSError, NotPlain for a longer path."""
    with _parent(top, path + b"/." if path else b".") as (number, _):
        found = []
        for text in os.listdir(number):  # noqa: PTH208 - by its open directory
            name = os.fsencode(text)
            seen = os.stat(name, dir_fd=number, follow_symlinks=False)
            whole = path + b"/" + name if path else name
            if len(whole) > MAX_PATH_BYTES:
                raise NotPlain("A path is too long.")
            found.append(SeenFile(whole, seen.st_mode, seen.st_size))
    return sorted(found)


def remove(path: Path) -> None:
    """Remove whatever is at a path, links themselves, unreadable and endlessly nested directories included.

    Directories move up to the top before they are emptied, so that no depth is too deep. Raises OSError.
    """
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(seen.st_mode):
        path.unlink()
        return
    with directory(path) as top:
        os.fchmod(top, 0o700)
        while names := os.listdir(top):  # noqa: PTH208
            for name in names:
                _take_out(top, name)
    path.rmdir()


def _take_out(top: int, name: str) -> None:
    """Remove an entry of a directory. The directories in it become further entries."""
    if not _is_directory(top, name):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, _DIRECTORY, dir_fd=top)
    try:
        for text in os.listdir(inner):  # noqa: PTH208
            if _is_directory(inner, text):
                os.chmod(text, 0o700, dir_fd=inner)  # to move it writes its `..`
                os.rename(text, f".{os.urandom(12).hex()}", src_dir_fd=inner, dst_dir_fd=top)
            else:
                os.unlink(text, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _is_directory(parent: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def existing(paths: Sequence[Path | str | None]) -> list[str]:
    """The paths that exist, without links on their way."""
    return [str(Path(path).resolve()) for path in paths if path and Path(path).exists()]
