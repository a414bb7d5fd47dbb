"""Whether there is room for what is written: on the disk of an embedded database, and by what writes have met."""

from __future__ import annotations

import shutil
from contextlib import suppress

from schemas.discovery.health import Check
from service.eventstore.connect.fulldisk import FULL_DISK
from service.settings import Settings

MB = 1_000_000


def free_bytes(settings: Settings) -> int | None:
    """Bytes free where the embedded database is; None with a database of your own, whose disk is not seen from here."""
    if settings.embedded:
        with suppress(OSError):
            return shutil.disk_usage(settings.data_dir).free
    return None


def room_checks(settings: Settings) -> list[Check]:
    """Check the disk, where it is seen, and what the processes of this service have met."""
    checks = []
    free = free_bytes(settings)
    if free is not None:
        detail = f"{free // MB} MB free, at least {settings.min_free_mb} MB wanted"
        checks.append(Check("disk", ok=free >= settings.min_free_mb * MB, detail=detail))
    full = FULL_DISK.lasts_anywhere
    checks.append(Check("writes", ok=not full, detail="the database has no room for them" if full else "find room"))
    return checks
