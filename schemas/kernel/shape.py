"""The shapes that bodies of every area are made of: a strict object, a whole number, a time, an identifier."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.kernel import patterns

SAFE_INTEGER = 9007199254740991

Epoch = Annotated[int, Meta(ge=0, description="Epoch seconds, UTC.")]
SafeEpoch = Annotated[int, Meta(ge=0, le=SAFE_INTEGER, description="Epoch seconds, UTC.")]
Identifier = Annotated[str, Meta(min_length=8, max_length=200, pattern=patterns.IDENTIFIER)]


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object that takes exactly its declared keys."""
