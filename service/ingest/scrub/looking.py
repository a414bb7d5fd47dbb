"""Whether to look into an event at all, and for what: a few searches over its bytes (G-033, G-135).

The usual event has nothing to hide. The searches may only err on the side of looking: what could be spelt otherwise
(escapes) leads to the exact look. Most of a long event has been seen before, but for its digits, and is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import IntEnum
from itertools import compress
from typing import NamedTuple

from service.ingest.scrub.bounds import ESCAPED_ADDRESS, holds_any, may_hold_card
from statemachines.kernel.forms import (
    BASIC,
    BEARER,
    BEFORE_WORD,
    CARD,
    CARD_DIGITS,
    FORMS,
    MAY_BE_CARD,
    URL,
    WORD,
    SecretForm,
)
from statemachines.kernel.telling import fold_text, normalize_name

MAX_REMEMBERED_NAME = 64  # characters: a longer name is judged each time

_HARMLESS_NAMES = 16384  # remembered; with more, all are forgotten
_BETWEEN_PARTS = b"},"
_MAX_PART = 512
_KNOWN_PARTS = 8192  # remembered, 4 MB at most; with more, all are forgotten
_JUDGED_AT_ONCE = 128  # parts of one text; whoever sends thousands of new ones does not hold up the others

_OWN_PIECE = b"service_"
_ESCAPE = b"\\"
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_SPACE = b" \t\r\n"
_ADDRESS = re.compile(rb"""://[^\s/?#"'<>]+@""")
_ANY_DIGIT = bytes.maketrans(b"123456789", b"0" * 9)
_ANY_DIGIT_OF_NAMES = dict.fromkeys(map(ord, "123456789"), "0")


class _Pieces:
    """Pieces of forms as one kind of text shows them, all of them at once and those of each form."""

    def __init__(self, pieces: Iterable[tuple[SecretForm, tuple[str, ...]]], shown: Callable[[bytes], bytes]) -> None:
        found = [(form, sorted({shown(piece.encode()) for piece in own})) for form, own in pieces if own]
        self._of_forms = found
        self._all = sorted({piece for _, own in found for piece in own})

    def forms(self, text: bytes) -> list[SecretForm]:
        """The forms of which a text has a piece."""
        if not any(map(text.__contains__, self._all)):  # All at once first: most events hold none.
            return []
        return [form for form, own in self._of_forms if any(map(text.__contains__, own))]


def _zeroed(piece: bytes) -> bytes:
    return piece.translate(_ANY_DIGIT)


_ANYWHERE = [(form, form.pieces) for form in FORMS]
_IN_WORDS = [(form, form.word_pieces) for form in FORMS]
# Texts as they are, and those whose digits are all 0.
_AS_THEY_ARE = _Pieces(_ANYWHERE, bytes), _Pieces(_IN_WORDS, bytes)
_ZEROED = _Pieces(_ANYWHERE, _zeroed), _Pieces(_IN_WORDS, _zeroed)
_OF_WORDS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_WORDS = bytes(ord("a") if byte in _OF_WORDS else ord(" ") for byte in range(256))
_LONG_WORD = b"a" * WORD
_FOLD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789", b"abcdefghijklmnopqrstuvwxyz" + b"0" * 9)
_DIGIT_RUN = b"0" * CARD_DIGITS


class Suspicion(NamedTuple):
    """What an event may hold, by its bytes: telling names, secrets of this service, and secrets of some forms."""

    names: bool
    own: bool
    forms: tuple[SecretForm, ...]

    def __bool__(self) -> bool:
        return self.names or self.own or bool(self.forms)

    def also(self, other: Suspicion) -> Suspicion:
        """What an event may hold by either of two texts."""
        forms = tuple(form for form in FORMS if form in self.forms or form in other.forms)
        return Suspicion(self.names or other.names, self.own or other.own, forms)


NOTHING = Suspicion(names=False, own=False, forms=())
EVERYTHING = Suspicion(names=True, own=True, forms=FORMS)


def fold_name(name: str) -> str:
    """Fold a name for the comparison: NFKC, nothing invisible, lowercase, no separators."""
    return normalize_name(fold_text(name))


class _Verdict(IntEnum):
    """What a part of a text is, whatever its digits are."""

    HARMLESS = 0
    DOUBTFUL = 1  # it has to be looked at each time
    DIGITS = 2  # harmless but for digits in a row, which a time has as well as the number of a card


class TextLook:
    """What a text may hold. `telling` is a pattern that finds something in each folded name that tells."""

    def __init__(self, telling: str) -> None:
        self._find_with_any_digit = re.compile(telling.translate(_ANY_DIGIT_OF_NAMES)).search
        self._harmless: set[bytes] = set()
        self._known_parts: dict[bytes, _Verdict] = {}

    def __call__(self, raw: bytes) -> Suspicion:
        """Say what a JSON text may hold. What is not suspected is certainly not there.

        Only those parts are looked at that were not found harmless before, whatever their digits were. Long texts are
        mostly frames of stacks, and these come again and again; short ones are often the same but for their numbers. A
        part ends where an object does: no name, and nothing that any search looks for, reaches beyond it. An even
        number of quotes in each part says that it was indeed an object that ended, and not a string that goes on.
        """
        if _ESCAPE in raw and _ESCAPED_ASCII.search(raw):
            return EVERYTHING
        parts = raw.translate(_ANY_DIGIT).split(_BETWEEN_PARTS)
        known = self._known_parts
        verdicts = list(map(known.get, parts))
        if None in verdicts:
            fresh = set(parts).difference(known)
            if _any_open(fresh, escapes=_ESCAPE in raw):
                return self.at_all(raw)
            if len(known) > _KNOWN_PARTS:
                known.clear()
            clean = self._judge(_BETWEEN_PARTS.join(fresh)) is _Verdict.HARMLESS
            short = [part for part in fresh if len(part) <= _MAX_PART]
            if clean:
                known.update(dict.fromkeys(short, _Verdict.HARMLESS))  # Below, no verdict counts as this one.
            else:
                known.update((part, self._judge(part)) for part in short[:_JUDGED_AT_ONCE])
                verdicts = [known.get(part, _Verdict.DOUBTFUL) for part in parts]
        if not any(verdicts):
            return NOTHING
        if _Verdict.DOUBTFUL not in verdicts and not may_hold_card(raw, _BETWEEN_PARTS.join(parts)):
            return NOTHING
        doubtful = _BETWEEN_PARTS.join(compress(raw.split(_BETWEEN_PARTS), verdicts))
        return self.at_all(raw) if len(doubtful) == len(raw) or self.at_all(doubtful) else NOTHING

    def _judge(self, text: bytes) -> _Verdict:
        """What a text whose digits are all 0 may stand for."""
        escapes = _ESCAPE in text
        forms = self._forms(text, escapes=escapes, digits=False)
        if _OWN_PIECE in text or self._any_telling(text, escapes=escapes) or any(form is not CARD for form in forms):
            return _Verdict.DOUBTFUL
        return _Verdict.DIGITS if forms else _Verdict.HARMLESS

    def at_all(self, raw: bytes) -> Suspicion:
        """Look at all of a text, whatever of it was seen before."""
        escapes = _ESCAPE in raw
        if escapes and _ESCAPED_ASCII.search(raw):
            return EVERYTHING
        forms = self._forms(raw, escapes=escapes)
        if forms:
            forms = [form for form in FORMS if form in forms] if holds_any(raw, forms) else []
        return Suspicion(self._any_telling(raw, escapes=escapes), _OWN_PIECE in raw, tuple(forms))

    def _forms(self, raw: bytes, *, escapes: bool, digits: bool = True) -> list[SecretForm]:
        """The forms of which a text has a piece; without `digits`, all of them are 0."""
        anywhere, in_words = _AS_THEY_ARE if digits else _ZEROED
        forms = anywhere.forms(raw)
        if words := _long_words(raw):
            forms += in_words.forms(words)
        if not escapes and URL in forms and _ADDRESS.search(raw) is None:
            forms.remove(URL)
        if escapes and any(map(raw.__contains__, ESCAPED_ADDRESS)):
            forms.append(URL)
        folded = raw.translate(_FOLD, b" -")
        if b"bearer" in folded:
            forms.append(BEARER)
        if b"basic" in folded:
            forms.append(BASIC)
        if _DIGIT_RUN in folded and (escapes or not digits or MAY_BE_CARD.search(raw)):
            forms.append(CARD)
        return forms

    def _any_telling(self, raw: bytes, *, escapes: bool) -> bool:
        """Whether a member may have a telling name; judged once for each name, by the text before each colon.

        Escaped quotes and backslashes are no part of what tells, and are dropped; any other escape may be.
        """
        if escapes:
            raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
        if b"\n" in raw or b"\t" in raw or b"\r" in raw or b'" :' in raw:  # None of the first three is in a string.
            raw = raw.translate(None, _SPACE)
        parts = raw.split(b'":')
        parts.pop()
        names = {part.rpartition(b'"')[2] for part in parts} - self._harmless
        if not names:
            return False
        if any(_ESCAPE in name or self._may_tell(name.decode()) for name in names):
            return True
        if len(self._harmless) > _HARMLESS_NAMES:
            self._harmless.clear()
        self._harmless.update(name for name in names if len(name) <= MAX_REMEMBERED_NAME)
        return False

    def _may_tell(self, name: str) -> bool:
        """Whether a name tells something, whatever its digits are."""
        return self._find_with_any_digit(fold_name(name).translate(_ANY_DIGIT_OF_NAMES)) is not None


def _any_open(parts: Iterable[bytes], *, escapes: bool) -> bool:
    """Whether a part begins or ends within a string."""
    if escapes:
        parts = [part.replace(b"\\\\", b"").replace(b'\\"', b"") for part in parts]
    return any(part.count(b'"') % 2 for part in parts)


def _long_words(raw: bytes) -> bytes:
    """The words of a text that are long enough to be keys, each with a little of what stands before it."""
    kinds = raw.translate(_WORDS)
    found = []
    start = kinds.find(_LONG_WORD)
    while start >= 0:
        end = kinds.find(b" ", start)
        end = len(raw) if end < 0 else end
        found.append(raw[max(0, start - BEFORE_WORD) : end])
        start = kinds.find(_LONG_WORD, end)
    return b" ".join(found)
