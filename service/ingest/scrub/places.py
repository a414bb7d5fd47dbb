"""Whether a JSON text holds a secret by its form, once some piece of one was seen in it (G-135). Pure.

A piece alone says little: `hooks` stands in many a path, and to walk all of a large event for it would cost more than
everything else that is done with it. So the strings around the pieces are taken out of the text and searched as they
will be when the event is walked. Every quote that is not escaped begins or ends a string, so what stands between two
of them is a string, or is between two and cannot matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from statemachines.kernel.forms import CARD, CARD_DIGITS, MAY_BE_CARD, URL, FormBudget, SecretForm

MOST_PLACES = 64
"""Strings that are taken out of one text; of one with more of them, or with too many candidates, no more is asked."""

ESCAPED_ADDRESS = (b":\\/", b":/\\/")  # of one whose slashes are escaped
_RUN_OF_DIGITS = re.compile(rb"[0-9][0-9 -]{11,}[0-9]")
_BACKSLASH = ord("\\")
_UNICODE = b"\\u"
_IN_A_ROW = b"0" * CARD_DIGITS
_FIRST_OF_CARD = frozenset(b"23456")

_decode = msgspec.json.Decoder(str).decode


def holds_any(raw: bytes, forms: Iterable[SecretForm]) -> bool:
    """Whether some string of a JSON text may hold one of these forms. False is certain."""
    left, budget = MOST_PLACES, FormBudget()
    for form in forms:
        for find in _searches(raw, form):
            end = 0
            while (place := find(end)) >= 0:
                start, end = _string_around(raw, place)
                left -= 1
                if left < 0 or form.find(_text(raw[start:end]), budget) != []:
                    return True
    return False


def may_hold_card(raw: bytes, zeroed: bytes) -> bool:
    """Whether a JSON text may hold the number of a card. False is certain. `zeroed` is the text with its digits as 0.

    Most digits in a row are a time or an id: where they begin says so, and what they begin with.
    """
    if _UNICODE in raw or b"0 0" in zeroed or b"0-0" in zeroed:  # An escape may end in digits; or digits in groups.
        return True
    start = zeroed.find(_IN_A_ROW)
    while start >= 0:
        if raw[start] in _FIRST_OF_CARD:
            return True
        start = zeroed.find(_IN_A_ROW, len(zeroed) - len(zeroed[start:].lstrip(b"0")))
    return False


def _searches(raw: bytes, form: SecretForm) -> Iterator[Callable[[int], int]]:
    """One for each piece of a form: tells its first place from another one on, -1 when there is none."""
    if form is CARD:
        # An escape before a number may end in digits.
        search = (_RUN_OF_DIGITS if b"\\" in raw else MAY_BE_CARD).search
        yield lambda begin: -1 if (found := search(raw, begin)) is None else found.start()
        return
    if form.scheme:
        yield partial(raw.lower().find, form.scheme.encode())
    for piece in form.pieces + form.word_pieces:
        yield partial(raw.find, piece.encode())
    if form is URL:
        for address in ESCAPED_ADDRESS:
            yield partial(raw.find, address)


def _string_around(raw: bytes, place: int) -> tuple[int, int]:
    """From behind the quote before a place to the one behind it, or to an end of the text."""
    start = raw.rfind(b'"', 0, place)
    while start >= 0 and _is_escaped(raw, start):
        start = raw.rfind(b'"', 0, start)
    end = raw.find(b'"', place)
    while end >= 0 and _is_escaped(raw, end):
        end = raw.find(b'"', end + 1)
    return start + 1, len(raw) if end < 0 else end


def _is_escaped(raw: bytes, place: int) -> bool:
    first = place
    while first and raw[first - 1] == _BACKSLASH:
        first -= 1
    return (place - first) % 2 == 1


def _text(written: bytes) -> str:
    """The written string. Bytes without one as they are."""
    if b"\\" not in written:
        return written.decode(errors="replace")
    try:
        return _decode(b'"%b"' % written)
    except msgspec.DecodeError:
        return written.decode(errors="replace")
