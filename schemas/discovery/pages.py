"""Wire shape of the search over the documentation (G-166)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

MAX_ASKED = 100


class PagesQuery(msgspec.Struct, frozen=True):
    """What is looked for."""

    q: Annotated[str, Meta(max_length=MAX_ASKED)] = ""
