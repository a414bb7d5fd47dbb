"""What every paged list takes (G-005)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class PageQuery(msgspec.Struct, frozen=True):
    """The number of items, and the cursor of the previous page."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
