"""Wire contract of many records in one body: the result of each (G-143)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.kernel.errors import ErrorBody

MAX_BATCH_BYTES = 1048576
MAX_BATCH_ITEMS = 1000
MAX_ITEM_ID = 255

ItemId = Annotated[str, Meta(min_length=1, max_length=MAX_ITEM_ID, pattern="^[!-~]+$")]


class ItemName(msgspec.Struct, frozen=True):
    """The name of an item: its repeats within 24 hours are one with it. Without one it has no repeats."""

    id: ItemId | None = None


class ItemResult(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The result of one item, as if it had been sent alone.

    `index` is its place in the body, from 0 on. `status` is 202 when it is stored, and then `id` names its record.
    `replayed`: the item was already stored. `case_id` names the case of an error. `adjusted` is the number of members
    that were changed before the item was stored (G-133).
    """

    id: str | msgspec.UnsetType = msgspec.UNSET
    index: int
    status: int
    case_id: str | msgspec.UnsetType = msgspec.UNSET
    adjusted: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    replayed: bool = False
    error: ErrorBody | msgspec.UnsetType = msgspec.UNSET


class BatchAccepted(msgspec.Struct, frozen=True):
    """The answer to a batch. Every accepted item is stored. `accepted` and `refused` add up to the items."""

    items: list[ItemResult]
    accepted: int
    refused: int
    next_action: str
