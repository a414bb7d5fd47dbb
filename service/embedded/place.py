"""Whether a path can be the data directory, and if not, why, in one sentence."""

from __future__ import annotations

import os
from pathlib import Path

_OF_POSTGRES = "PG_VERSION"


def unfit(data_dir: Path, *, makes: bool) -> str | None:
    """Why this cannot be the data directory; None when it can, or when it is not there and could be made.

    With `makes` what is missing is to be made, so that whoever asks has to be allowed to. An answer names the path.
    """
    there = next(path for path in (data_dir, *data_dir.parents) if _exists(path))
    who = f"user {os.geteuid()}"
    if not there.is_dir():
        return f"{data_dir} cannot be the data directory: {there} is a file."
    if not os.access(there, os.X_OK):
        return f"{data_dir} cannot be the data directory: {there} is closed to {who}, who runs this."
    if (data_dir / _OF_POSTGRES).exists():
        return f"{data_dir} is the directory of PostgreSQL itself. The data directory is the one above it."
    if makes and not os.access(there, os.W_OK):
        return f"{data_dir} cannot be the data directory: {who}, who runs this, may not write to {there}."
    return None


def _exists(path: Path) -> bool:
    """Whether a path is there, or hidden in a directory that may not be entered: then that one is what is wrong."""
    try:
        return path.exists()
    except OSError:  # below a file, or in a directory that may not be entered
        return False
