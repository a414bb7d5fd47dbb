"""The last checkpoint, kept outside of the database: a restored backup must not sign another history (G-169).

It lies beside the ledger of erasures, as `<ledger's name>.checkpoint`, and is on the disk before anybody is shown the
checkpoint. So it is never behind the view of outsiders.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from service.tlog.notes import Checkpoint, MalformedNote, parse_checkpoint, parse_note

MOST_BYTES = 64 * 1024


class Unreadable(Exception):
    """The file is there and holds no checkpoint."""


class CheckpointFile:
    """The file beside a ledger."""

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_suffix(".checkpoint")

    def read(self) -> Checkpoint | None:
        """Read the checkpoint. None where there is none. Raises Unreadable."""
        try:
            with self.path.open("rb") as file:
                return parse_checkpoint(parse_note(file.read(MOST_BYTES)).text)
        except FileNotFoundError:
            return None
        except (OSError, MalformedNote) as error:
            raise Unreadable(f"{self.path} cannot be read as a checkpoint: {error}") from error

    def write(self, note: str) -> None:
        """Replace it, and have the new one on the disk before this returns. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(note)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
