"""Parameters of operations with a late answer: it comes when something changes (G-167)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

MOST_SECONDS = 60


class WaitQuery(msgspec.Struct, frozen=True):
    """Seconds to wait for a change, and the revision known to the caller."""

    wait: Annotated[int, Meta(ge=1, le=MOST_SECONDS)] | None = None
    revision: Annotated[int, Meta(ge=0)] | None = None
