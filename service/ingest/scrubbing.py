"""What must not be stored: values under telling names, secrets of this service, and secrets by form (G-033, G-135).

The usual event has nothing to hide, so a few searches over its bytes say whether to look at all, and at what. They
may only err on the side of looking: what could be spelt otherwise (escapes) leads to the exact look. The walk keeps no
stack of calls, changes the decoded event in place, and touches each value once.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from schemas.onboarding.proof import PROOF_PROPERTY
from service.ingest.forms import (
    BASIC,
    BEARER,
    BEFORE_WORD,
    CARD,
    CARD_DIGITS,
    FORMS,
    MAY_BE_CARD,
    URL,
    WORD,
    Form,
    hide,
)
from statemachines.kernel.telling import SECRET_FRAGMENTS, holds_own_secret, normalize_name

SCRUBBED = "[scrubbed]"
NAME = "name"
OWN_SECRET = "service_secret"  # noqa: S105 - a kind, not a secret

STRING_FRAGMENTS = (
    "authorization",
    "token",
    "pwd",
    "passcode",
    "jwt",
    "creditcard",
    "cardnumber",
    "cvv",
)
"""Fragments of names whose strings are hidden; numbers and booleans under them stay (G-135)."""
STRING_NAMES = ("session", "sessionid", "otp", "totp", "auth", "sid", "pin")
"""Such names, compared whole."""

KEPT_OF_USER = frozenset({"id"})
KEPT_OF_OTHERS = frozenset({PROOF_PROPERTY})
"""Members that are only searched for secrets of this service: what identifies a person, and the onboarding marker."""

MAX_REMEMBERED_NAME = 64  # characters: a longer name is judged each time
_REMEMBERED_NAMES = 8192

# Characters that show nothing; in a name they would part what belongs together.
_INVISIBLE = dict.fromkeys(
    [0xAD, 0x34F, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF]
)
_HARMLESS_NAMES = 16384  # remembered; with more, all are forgotten
_BETWEEN_PARTS = b"},"
_MANY_PARTS = 1024  # bytes of a text from which on its parts are looked at one by one
_MAX_PART = 512
_HARMLESS_PARTS = 8192  # remembered, 4 MB at most; with more, all are forgotten

_OWN_PIECE = b"service_"
_ESCAPE = b"\\"
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_SPACE = b" \t\r\n"
_ADDRESS = re.compile(rb"""://[^\s/?#"'<>]+@""")
_ESCAPED_ADDRESS = (b":\\/", b":/\\/")  # of one whose slashes are escaped
_ANYWHERE = [(form, [piece.encode() for piece in form.pieces]) for form in FORMS if form.pieces]
_IN_WORDS = [(form, [piece.encode() for piece in form.word_pieces]) for form in FORMS if form.word_pieces]
_PIECES = [piece for _, pieces in _ANYWHERE for piece in pieces]
_WORD_PIECES = [piece for _, pieces in _IN_WORDS for piece in pieces]
_OF_WORDS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_WORDS = bytes(ord("a") if byte in _OF_WORDS else ord(" ") for byte in range(256))
_LONG_WORD = b"a" * WORD
_FOLD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789", b"abcdefghijklmnopqrstuvwxyz" + b"0" * 9)
_DIGIT_RUN = b"0" * CARD_DIGITS


class _Rule(Enum):
    """What a name means for its value."""

    NONE = 0
    STRINGS = 1  # strings are hidden at any depth, numbers and booleans stay
    WHOLE = 2


class Suspicion(NamedTuple):
    """What an event may hold, by its bytes: telling names, secrets of this service, and secrets of some forms."""

    names: bool
    own: bool
    forms: tuple[Form, ...]

    def __bool__(self) -> bool:
        return self.names or self.own or bool(self.forms)


NOTHING = Suspicion(names=False, own=False, forms=())
EVERYTHING = Suspicion(names=True, own=True, forms=FORMS)


def fold_name(name: str) -> str:
    """Fold a name for the comparison: NFKC, nothing invisible, lowercase, no separators."""
    if name.isascii():
        return normalize_name(name)
    return normalize_name(unicodedata.normalize("NFKC", name).translate(_INVISIBLE))


class Scrubber:
    """The rules in force. `more_names` are added to the list, in any spelling: they hide their values whole."""

    def __init__(self, more_names: Iterable[str] = ()) -> None:
        added = [name for name in map(fold_name, more_names) if name]
        whole = "|".join(map(re.escape, (*SECRET_FRAGMENTS, *added)))
        strings = "|".join(STRING_FRAGMENTS)
        equal = "|".join(STRING_NAMES)
        self._find_whole = re.compile(whole).search
        self._find_telling = re.compile(rf"{whole}|{strings}|\A(?:{equal})\Z").search
        self._harmless: set[bytes] = set()
        self._harmless_parts: set[bytes] = set()
        self._remembered = lru_cache(_REMEMBERED_NAMES)(self._judge)

    # -- the quick look ----------------------------------------------------------------------------------------

    def look(self, raw: bytes) -> Suspicion:
        """Say what the JSON text may hold. What is not suspected is certainly not there."""
        return self._look_at_parts(raw) if len(raw) > _MANY_PARTS and _ESCAPE not in raw else self._look(raw)

    def _look_at_parts(self, raw: bytes) -> Suspicion:
        """Look at those parts of a long text only that were not found harmless before.

        Long texts are mostly frames of stacks, and these come again and again. A part ends where an object does: no
        name, and nothing that any search looks for, reaches beyond it. An even number of quotes in each part says that
        it was indeed an object that ended, and not a string that goes on.
        """
        parts = raw.split(_BETWEEN_PARTS)
        fresh = [part for part in parts if part not in self._harmless_parts]
        if len(fresh) == len(parts):
            suspicion = self._look(raw)
        elif self._look(_BETWEEN_PARTS.join(fresh)) or any(part.count(b'"') % 2 for part in fresh):
            return self._look(raw)
        else:
            suspicion = NOTHING
        if not suspicion and not any(part.count(b'"') % 2 for part in fresh):
            if len(self._harmless_parts) > _HARMLESS_PARTS:
                self._harmless_parts.clear()
            self._harmless_parts.update(part for part in fresh if len(part) <= _MAX_PART)
        return suspicion

    def _look(self, raw: bytes) -> Suspicion:
        escapes = _ESCAPE in raw
        if escapes and _ESCAPED_ASCII.search(raw):
            return EVERYTHING
        forms: list[Form] = []
        if any(map(raw.__contains__, _PIECES)):  # All at once first: most events hold none.
            forms += [form for form, pieces in _ANYWHERE if any(map(raw.__contains__, pieces))]
        if (words := _long_words(raw)) and any(map(words.__contains__, _WORD_PIECES)):
            forms += [form for form, pieces in _IN_WORDS if any(map(words.__contains__, pieces))]
        if not escapes and URL in forms and _ADDRESS.search(raw) is None:
            forms.remove(URL)
        if escapes and any(map(raw.__contains__, _ESCAPED_ADDRESS)):
            forms.append(URL)
        folded = raw.translate(_FOLD, b" -")
        if b"bearer" in folded:
            forms.append(BEARER)
        if b"basic" in folded:
            forms.append(BASIC)
        if _DIGIT_RUN in folded and (escapes or MAY_BE_CARD.search(raw)):
            forms.append(CARD)
        if len(forms) > 1:
            forms = [form for form in FORMS if form in forms]
        return Suspicion(self._any_telling(raw, escapes=escapes), _OWN_PIECE in raw, tuple(forms))

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
        if any(_ESCAPE in name or self._judge(name.decode()) is not _Rule.NONE for name in names):
            return True
        if len(self._harmless) > _HARMLESS_NAMES:
            self._harmless.clear()
        self._harmless.update(name for name in names if len(name) <= MAX_REMEMBERED_NAME)
        return False

    # -- the exact look ----------------------------------------------------------------------------------------

    def _judge(self, name: str) -> _Rule:
        folded = fold_name(name)
        if self._find_telling(folded) is None:
            return _Rule.NONE
        return _Rule.STRINGS if self._find_whole(folded) is None else _Rule.WHOLE

    def _rule(self, name: str) -> _Rule:
        return self._remembered(name) if len(name) <= MAX_REMEMBERED_NAME else self._judge(name)

    def text(self, value: str, suspicion: Suspicion, counts: Counter[str]) -> str:
        """Scrub one string, and count by kind what was hidden."""
        shown = self.kept_text(value, suspicion, counts)
        for form in suspicion.forms:
            places = form.find(shown)
            if places:
                shown = hide(shown, form.kind, places)
                counts[form.kind] += len(places)
        return shown

    def kept_text(self, value: str, suspicion: Suspicion, counts: Counter[str]) -> str:
        """Scrub a string that is never changed for its form: it is hidden whole when it holds a secret of ours."""
        if not suspicion.own:
            return value
        shown = without_own(value)
        if shown is not value:
            counts[OWN_SECRET] += 1
        return shown

    def tree(
        self, holder: dict[str, Any], suspicion: Suspicion, counts: Counter[str], kept: frozenset[str] = frozenset()
    ) -> None:
        """Scrub a decoded object at any depth, in place, and count by kind what was hidden.

        Of its own members those in `kept` are only searched for secrets of this service.
        """
        texts = suspicion.own or bool(suspicion.forms)
        open_nodes: list[Any] = [holder]
        while open_nodes:
            node = open_nodes.pop()
            if type(node) is dict:
                self._members(node, suspicion, counts, open_nodes, kept)
                kept = frozenset()
                if texts:
                    self._names(node, suspicion, counts)
            else:
                self._items(node, suspicion, counts, open_nodes)

    def _items(self, node: list[Any], suspicion: Suspicion, counts: Counter[str], open_nodes: list[Any]) -> None:
        for index, value in enumerate(node):
            kind = type(value)
            if kind is str:
                node[index] = self.text(value, suspicion, counts)
            elif kind is dict or kind is list:
                open_nodes.append(value)

    def _members(
        self,
        node: dict[str, Any],
        suspicion: Suspicion,
        counts: Counter[str],
        open_nodes: list[Any],
        kept: frozenset[str],
    ) -> None:
        for name, value in node.items():  # Only values of names that are there are replaced, which is safe.
            kind = type(value)
            if name in kept:
                if kind is str:
                    node[name] = self.kept_text(value, suspicion, counts)
                continue
            rule = self._rule(name) if suspicion.names else _Rule.NONE
            if rule is _Rule.NONE:
                if kind is str:
                    node[name] = self.text(value, suspicion, counts)
                elif kind is dict or kind is list:
                    open_nodes.append(value)
            elif rule is _Rule.WHOLE or kind is str:
                node[name] = SCRUBBED
                counts[NAME] += 1
            elif kind is dict or kind is list:
                self._hide_strings(value, suspicion, counts)

    def _hide_strings(self, top: dict[str, Any] | list[Any], suspicion: Suspicion, counts: Counter[str]) -> None:
        """Hide every string in a value, and leave the numbers."""
        open_nodes: list[Any] = [top]
        while open_nodes:
            node = open_nodes.pop()
            for key, value in node.items() if type(node) is dict else enumerate(node):
                if type(value) is str:
                    node[key] = SCRUBBED
                    counts[NAME] += 1
                elif type(value) is dict or type(value) is list:
                    open_nodes.append(value)
            if type(node) is dict:
                self._names(node, suspicion, counts)

    def _names(self, node: dict[str, Any], suspicion: Suspicion, counts: Counter[str]) -> None:
        """A name that holds a secret is a string like any other; no member is lost when two become equal."""
        shown = [self.text(name, suspicion, counts) for name in node]
        if shown != list(node):
            values = list(node.values())
            node.clear()
            for name, value in zip(shown, values, strict=True):
                node[name if name not in node else f"{name} {len(node)}"] = value


def without_own(text: str) -> str:
    """Return a text, or the mark when it holds a secret of this service (G-033)."""
    return SCRUBBED if holds_own_secret(text) else text


def hide_own(*texts: Any) -> tuple[list[Any], int]:
    """Hide each text (or None) that holds a secret of this service; returns them, and how many were hidden (G-033)."""
    shown = [text if text is None else without_own(text) for text in texts]
    return shown, sum(new != old for new, old in zip(shown, texts, strict=True))


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
