"""Wire contracts of the tree over the log: proofs with hashes alone (G-169)."""

from typing import Annotated

import msgspec
from msgspec import Meta

LARGEST = 2**53 - 1

Hash = Annotated[str, Meta(pattern="^[A-Za-z0-9+/]{43}=$", description="A SHA-256 in base64.")]
Position = Annotated[int, Meta(ge=1, le=LARGEST)]
Size = Annotated[int, Meta(ge=0, le=LARGEST)]


class InclusionQuery(msgspec.Struct, frozen=True):
    """A position and the size of a tree. The size is by default the one of the newest checkpoint."""

    position: Position | None = None
    size: Position | None = None


class ConsistencyQuery(msgspec.Struct, frozen=True):
    """The sizes of both trees. `to` is by default the size of the newest checkpoint."""

    old: Size | None = msgspec.field(default=None, name="from")
    new: Size | None = msgspec.field(default=None, name="to")


class InclusionProof(msgspec.Struct, frozen=True, kw_only=True):
    """Proof of an event in the log (RFC 6962, section 2.1.1)."""

    position: Position
    leaf_index: Size
    size: Position
    leaf_hash: Hash
    hashes: Annotated[list[Hash], Meta(max_length=63)]
    root: Hash


class ConsistencyProof(msgspec.Struct, frozen=True, kw_only=True):
    """Proof of growth from one tree to another (RFC 6962, section 2.1.2)."""

    old: Size = msgspec.field(name="from")
    new: Size = msgspec.field(name="to")
    from_root: Hash
    to_root: Hash
    hashes: Annotated[list[Hash], Meta(max_length=64)]
