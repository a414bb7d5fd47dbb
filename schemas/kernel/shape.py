"""The shapes that bodies of every area are made of: a strict object, a whole number, a time, an identifier."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns

SAFE_INTEGER = 9007199254740991

Epoch = Annotated[int, Meta(ge=0, description="Epoch seconds, UTC.")]
EvidenceSource = Literal["local", "provider_cloud"]
HistoryCheck = Literal["confirmed", "contradicted", "unconfirmed"]
SafeEpoch = Annotated[int, Meta(ge=0, le=SAFE_INTEGER, description="Epoch seconds, UTC.")]
Identifier = Annotated[str, Meta(min_length=8, max_length=200, pattern=patterns.IDENTIFIER)]


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object that takes exactly its declared keys."""


ONE_OF = "one_of"
"""Where the annotation of such a member names its types."""
ALTERNATIVES: list[type[msgspec.Struct]] = []
"""Objects that are a member of an answer only beside others: the document has to be told of each."""


def one_of(*kinds: type[msgspec.Struct]) -> Meta:
    """Annotate a member of an answer, typed Any, that is one of several objects or null.

    msgspec tells the objects of a union apart by a tag alone, and closed shapes have no room for one.
    """
    ALTERNATIVES.extend(kinds)
    shown: list[dict[str, Any]] = [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in kinds]
    return Meta(extra_json_schema={"anyOf": [*shown, {"type": "null"}]}, extra={ONE_OF: kinds})
