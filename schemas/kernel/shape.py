"""The shapes that bodies of every area are made of: a strict object, a whole number, a time, an identifier."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns

SAFE_INTEGER = 9007199254740991

Epoch = Annotated[int, Meta(ge=0, description="Epoch seconds, UTC.")]
EvidenceSource = Literal["local", "provider_cloud"]
"""Where evidence was read: in our own records, or at the customer's provider (G-183)."""
HistoryCheck = Literal["confirmed", "contradicted", "unconfirmed"]
SafeEpoch = Annotated[int, Meta(ge=0, le=SAFE_INTEGER, description="Epoch seconds, UTC.")]
Identifier = Annotated[str, Meta(min_length=8, max_length=200, pattern=patterns.IDENTIFIER)]


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object that takes exactly its declared keys."""


ONE_OF = "one_of"
"""Where the annotation of such a member names its types."""
ALTERNATIVES: list[type[msgspec.Struct]] = []
"""Objects that stand in a body only beside others: the document has to be told of each."""
COMPONENT = "#/components/schemas/"
"""Where a reference to a component begins."""


def one_of(*kinds: type[msgspec.Struct], null: bool = False, deep: bool = False) -> Meta:
    """Annotate a member typed Any: it is one of several objects, or null.

    msgspec tells the objects of a union apart by a tag alone, and many closed shapes have no room for one. Where all
    have the same tag, the schema names it. `deep`: they differ only inside of their members, where linters of `oneOf`
    do not look.
    """
    ALTERNATIVES.extend(kinds)
    reference = {kind: f"{COMPONENT}{kind.__name__}" for kind in kinds}
    shown: list[dict[str, Any]] = [{"$ref": reference[kind]} for kind in kinds]
    schema: dict[str, Any] = {"anyOf" if deep else "oneOf": [*shown, {"type": "null"}] if null else shown}
    [tag, *others] = {kind.__struct_config__.tag_field for kind in kinds}
    if tag is not None and not others:
        mapping = {str(kind.__struct_config__.tag): reference[kind] for kind in kinds}
        schema["discriminator"] = {"propertyName": tag, "mapping": mapping}
    return Meta(extra_json_schema=schema, extra={ONE_OF: kinds})


def exactly(*items: str) -> Meta:
    """Annotate an array of texts: these, in this order. Generators read a constant here for that of each place."""
    told = [{"type": "string", "enum": [item]} for item in items]
    return Meta(extra_json_schema={"prefixItems": told, "minItems": len(items), "maxItems": len(items)})
