"""Pages of lists on the wire (G-005).

A cursor holds the last item's time and id, so that a page does not shift when newer items arrive. In an order other
than the newest first it holds the name of the order and a value in place of the time. It is opaque to clients and
trusted in nothing: every list adds its own condition on the project.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from schemas.kernel.shape import PageQuery
from service.auth.refusals import InvalidPayload
from service.eventstore.read.reader import END, PageEnd

T = TypeVar("T")


class _Ordered(NamedTuple):
    """Where a page ended in an order of its own."""

    order: str
    at: int
    id: str


def encode_cursor(place: PageEnd, order: str | None = None) -> str:
    """Write a cursor, with the name of an order other than the newest first."""
    told = place if order is None else _Ordered(order, *place)
    return base64.urlsafe_b64encode(msgspec.json.encode(told)).decode().rstrip("=")


def start_of(query: PageQuery, order: str | None = None) -> PageEnd:
    """Return the place after which the page begins. Raises InvalidPayload for what is no cursor of this order."""
    if query.cursor is None:
        return END
    try:
        raw = base64.b64decode(query.cursor + "=" * (-len(query.cursor) % 4), altchars=b"-_", validate=True)
        place = _place_of(raw, order)
    except (ValueError, binascii.Error, msgspec.DecodeError, msgspec.ValidationError):
        place = None
    if place is None or not 0 <= place.at <= END.at or "\x00" in place.id:
        reason = "must be the next_cursor of an earlier page"
        raise InvalidPayload("The cursor is not valid.", invalid=[("cursor", reason)])
    return place


def _place_of(raw: bytes, order: str | None) -> PageEnd | None:
    if order is None:
        return msgspec.json.decode(raw, type=PageEnd)
    told = msgspec.json.decode(raw, type=_Ordered)
    return PageEnd(told.at, told.id) if told.order == order else None


def page(
    items: Sequence[T], query: PageQuery, place: Callable[[T], PageEnd], order: str | None = None
) -> tuple[list[T], str | None]:
    """Cut a page from `limit + 1` items. Returns it with the cursor of the next one, None at the end."""
    shown = list(items[: query.limit])
    return shown, encode_cursor(place(shown[-1]), order) if len(items) > query.limit else None


async def read_page(
    query: PageQuery,
    fetch: Callable[[PageEnd, int], Awaitable[Sequence[T]]],
    place: Callable[[T], PageEnd],
    keep: Callable[[T], bool],
) -> tuple[list[T], str | None]:
    """Read a page of things that a filter keeps by what they are now rather than by what was recorded.

    `fetch` gets the place to go on after and how many to read. Few are ever dropped: recorded and true status differ
    until the next sweep at most.
    """
    kept: list[T] = []
    start, wanted = start_of(query), query.limit + 1
    while len(kept) < wanted:
        found = await fetch(start, wanted)
        kept += [item for item in found if keep(item)]
        if len(found) < wanted:
            break
        start = place(found[-1])
    return page(kept, query, place)
