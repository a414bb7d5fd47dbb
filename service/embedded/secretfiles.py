"""Secrets made by embedded mode for itself: one file each, readable by their owner alone."""

from __future__ import annotations

import base64
import os
import secrets
from contextlib import suppress
from pathlib import Path

from service.embedded.layout import Layout


def stored_secret(layout: Layout, name: str, size: int) -> str:
    """Read the secret `name`, made first (`size` random bytes as base64) when there is none.

    Two processes that start at once get the same one: the file appears whole, by a link that fails when the name is
    taken. Raises OSError when the directory cannot be written.
    """
    path = layout.secrets / name
    with suppress(FileNotFoundError):
        return path.read_text(encoding="ascii").strip()
    layout.make()
    layout.secrets.mkdir(mode=0o700, exist_ok=True)
    draft = layout.secrets / f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
    _write_private(draft, base64.b64encode(secrets.token_bytes(size)) + b"\n")
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    _sync_directory(layout.secrets)
    return path.read_text(encoding="ascii").strip()


def _write_private(path: Path, content: bytes) -> None:
    """Write a new file with mode 0600 and bring it to disk: a lost key makes sealed data unreadable."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    """Bring new names in a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
