"""From the shapes of the wire to those of the storage and back: a change of one leaves the other as it is."""

from __future__ import annotations

from typing import TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def reshape(value: msgspec.Struct, shape: type[S]) -> S:
    """Make a struct of another shape that takes the same members. Raises msgspec.ValidationError where it does not."""
    return msgspec.json.decode(msgspec.json.encode(value), type=shape)
