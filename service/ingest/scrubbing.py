"""What must not be stored: values under telling names, secrets of this service, and secrets by form (G-033, G-135).

The usual event has nothing to hide. The searches may only err on the side of looking: what could be spelt otherwise
(escapes) leads to the exact look. Most of a long event has been seen before, but for its digits, and is passed over.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from functools import lru_cache
from itertools import compress
from typing import Any, NamedTuple

from schemas.onboarding import PROOF_PROPERTY
from service.ingest.bounds import ESCAPED_ADDRESS, holds_any, may_hold_card
from statemachines.kernel import telling as tellings

# Whether to look into an event at all, and for what: a few searches over its bytes (G-033, G-135).

MAX_REMEMBERED_NAME = 64  # characters: a longer name is judged each time

_HARMLESS_NAMES = 16384  # remembered; with more, all are forgotten
_BETWEEN_PARTS = b"},"
_MAX_PART = 512
_KNOWN_PARTS = 8192  # remembered, 4 MB at most; with more, all are forgotten
_JUDGED_AT_ONCE = 64  # times for one text; whoever sends thousands of new ones does not hold up the others

_OWN_PIECE = b"service_"
_ESCAPE = b"\\"
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_SPACE = b" \t\r\n"
_ADDRESS = re.compile(rb"""://[^\s/?#"'<>]+@""")
_ANY_DIGIT = bytes.maketrans(b"123456789", b"0" * 9)
_ANY_DIGIT_OF_NAMES = dict.fromkeys(map(ord, "123456789"), "0")


class _Pieces:
    """Pieces of forms as one kind of text shows them, all of them at once and those of each form."""

    def __init__(
        self, pieces: Iterable[tuple[tellings.SecretForm, tuple[str, ...]]], shown: Callable[[bytes], bytes]
    ) -> None:
        found = [(form, sorted({shown(piece.encode()) for piece in own})) for form, own in pieces if own]
        self._of_forms = found
        self._all = sorted({piece for _, own in found for piece in own})

    def forms(self, text: bytes) -> list[tellings.SecretForm]:
        """The forms of which a text has a piece."""
        if not any(map(text.__contains__, self._all)):  # All at once first: most events hold none.
            return []
        return [form for form, own in self._of_forms if any(map(text.__contains__, own))]


def _zeroed(piece: bytes) -> bytes:
    return piece.translate(_ANY_DIGIT)


_ANYWHERE = [(form, form.pieces) for form in tellings.FORMS]
_IN_WORDS = [(form, form.word_pieces) for form in tellings.FORMS]
# Texts as they are, and those whose digits are all 0.
_AS_THEY_ARE = _Pieces(_ANYWHERE, bytes), _Pieces(_IN_WORDS, bytes)
_ZEROED = _Pieces(_ANYWHERE, _zeroed), _Pieces(_IN_WORDS, _zeroed)
_OF_WORDS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_WORDS = bytes(ord("a") if byte in _OF_WORDS else ord(" ") for byte in range(256))
_LONG_WORD = b"a" * tellings.WORD
_FOLD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789", b"abcdefghijklmnopqrstuvwxyz" + b"0" * 9)
_DIGIT_RUN = b"0" * tellings.CARD_DIGITS
_AN_ID = b"0" * tellings.ID_DIGITS
_IDS = [(form, [piece.encode() + _AN_ID for piece in form.ids]) for form in tellings.FORMS if form.ids]


class Suspicion(NamedTuple):
    """What an event may hold, by its bytes: telling names, secrets of this service, and secrets of some forms."""

    names: bool
    own: bool
    forms: tuple[tellings.SecretForm, ...]

    def __bool__(self) -> bool:
        return self.names or self.own or bool(self.forms)

    def also(self, other: Suspicion) -> Suspicion:
        """What an event may hold by either of two texts."""
        forms = tuple(form for form in tellings.FORMS if form in self.forms or form in other.forms)
        return Suspicion(self.names or other.names, self.own or other.own, forms)


NOTHING = Suspicion(names=False, own=False, forms=())
A_CARD = Suspicion(names=False, own=False, forms=(tellings.CARD,))
EVERYTHING = Suspicion(names=True, own=True, forms=tellings.FORMS)


def fold_name(name: str) -> str:
    """Fold a name for the comparison: NFKC, nothing invisible, lowercase, no separators."""
    return tellings.normalize_name(tellings.fold_text(name))


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
            if worst := self._learn(list(fresh)):  # Below, no verdict counts as harmless.
                verdicts = [
                    known.get(part, worst) if verdict is None else verdict
                    for part, verdict in zip(parts, verdicts, strict=True)
                ]
        if not any(verdicts):
            return NOTHING
        doubtful = _BETWEEN_PARTS.join(compress(raw.split(_BETWEEN_PARTS), verdicts))
        if _Verdict.DOUBTFUL not in verdicts:
            zeroed = _BETWEEN_PARTS.join(parts)
            return A_CARD if may_hold_card(raw, zeroed) and holds_any(doubtful, A_CARD.forms) else NOTHING
        return self.at_all(raw) if len(doubtful) == len(raw) or self.at_all(doubtful) else NOTHING

    def _learn(self, fresh: list[bytes]) -> _Verdict:
        """Judge new parts together, and remember the short ones. Returns the verdict on all.

        Of parts that are not harmless the halves are judged apart, and so on: mostly one of them holds something.
        """
        worst = self._judge(_BETWEEN_PARTS.join(fresh))
        short = [part for part in fresh if len(part) <= _MAX_PART]
        if worst is _Verdict.HARMLESS:
            self._known_parts.update(dict.fromkeys(short, worst))
            return worst
        waiting, left = _halves(short), _JUDGED_AT_ONCE
        while waiting and left:
            left -= 1
            parts = waiting.pop()
            verdict = self._judge(_BETWEEN_PARTS.join(parts))
            if verdict is _Verdict.HARMLESS or len(parts) == 1:
                self._known_parts.update(dict.fromkeys(parts, verdict))
            else:
                waiting += _halves(parts)
        return worst

    def _judge(self, text: bytes) -> _Verdict:
        """What a text whose digits are all 0 may stand for."""
        escapes = _ESCAPE in text
        forms = self._forms(text, escapes=escapes, digits=False)
        if (
            _OWN_PIECE in text
            or self._any_telling(text, escapes=escapes)
            or any(form is not tellings.CARD for form in forms)
        ):
            return _Verdict.DOUBTFUL
        return _Verdict.DIGITS if forms else _Verdict.HARMLESS

    def at_all(self, raw: bytes) -> Suspicion:
        """Look at all of a text, whatever of it was seen before."""
        escapes = _ESCAPE in raw
        if escapes and _ESCAPED_ASCII.search(raw):
            return EVERYTHING
        forms = self._forms(raw, escapes=escapes)
        if forms:
            forms = [form for form in tellings.FORMS if form in forms] if holds_any(raw, forms) else []
        return Suspicion(self._any_telling(raw, escapes=escapes), _OWN_PIECE in raw, tuple(forms))

    def _forms(self, raw: bytes, *, escapes: bool, digits: bool = True) -> list[tellings.SecretForm]:
        """The forms of which a text has a piece; without `digits`, all of them are 0."""
        anywhere, in_words = _AS_THEY_ARE if digits else _ZEROED
        forms = anywhere.forms(raw)
        if words := _long_words(raw):
            forms += in_words.forms(words)
        if not escapes and tellings.URL in forms and _ADDRESS.search(raw) is None:
            forms.remove(tellings.URL)
        if escapes and any(map(raw.__contains__, ESCAPED_ADDRESS)):
            forms.append(tellings.URL)
        folded = raw.translate(_FOLD, b" -")
        if b"bearer" in folded:
            forms.append(tellings.BEARER)
        if b"basic" in folded:
            forms.append(tellings.BASIC)
        if _DIGIT_RUN in folded:
            forms += [form for form, ids in _IDS if form not in forms and any(map(folded.__contains__, ids))]
            if escapes or not digits or tellings.MAY_BE_CARD.search(raw):
                forms.append(tellings.CARD)
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


def _halves(parts: list[bytes]) -> list[list[bytes]]:
    middle = len(parts) // 2
    return [half for half in (parts[:middle], parts[middle:]) if half]


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
        found.append(raw[max(0, start - tellings.BEFORE_WORD) : end])
        start = kinds.find(_LONG_WORD, end)
    return b" ".join(found)


# What must not be stored: values under telling names, secrets of this service, and secrets by form (G-033, G-135).
# The usual event has nothing to hide, so a look over its bytes says whether to walk it at all, and for what (see
# above). The walk keeps no stack of calls, changes the decoded event in place, and touches each value once.

SCRUBBED = "[scrubbed]"
NAME = "name"
OWN_SECRET = "service_secret"  # noqa: S105 - a kind, not a secret

TOO_MANY = "too_many"
"""A text that was hidden whole, since its event has more that looks like a secret than is judged."""

KEPT_OF_USER = frozenset({"id"})
KEPT_OF_OTHERS = frozenset({PROOF_PROPERTY})
"""Members that are only searched for secrets of this service: what identifies a person, and the onboarding marker."""

_REMEMBERED_NAMES = 8192
_NAMES_IN_TEXT = re.compile(r"""([\w.-]{1,64})\\*["'`]?\s{0,4}(?:=|:)""").findall
"""Names before a value in a text: `name=`, `name: `, `'name': `, `"name" => `, also with escaped quotes."""


class Findings(Counter[str]):
    """What was hidden in one event, by kind, and what may still be judged of it."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = tellings.FormBudget()


class _Rule(Enum):
    """What a name means for its value."""

    NONE = 0
    STRINGS = 1  # strings are hidden at any depth, numbers and booleans stay
    WHOLE = 2


class Scrubber:
    """The rules in force. `more_names` are added to the list, in any spelling: they hide their values whole."""

    def __init__(self, more_names: Iterable[str] = ()) -> None:
        added = [name for name in map(fold_name, more_names) if name]
        whole = "|".join(map(re.escape, (*tellings.SECRET_FRAGMENTS, *added)))
        strings = "|".join(tellings.STRING_FRAGMENTS)
        equal = "|".join(tellings.STRING_NAMES)
        self._find_whole = re.compile(whole).search
        telling = rf"{whole}|{strings}|\A(?:{equal})\Z"
        self._find_telling = re.compile(telling).search
        self.look = TextLook(telling)
        """Says what a JSON text may hold. What is not suspected is certainly not there."""
        self._remembered = lru_cache(_REMEMBERED_NAMES)(self._judge)

    def _judge(self, name: str) -> _Rule:
        folded = fold_name(name)
        if self._find_telling(folded) is None:
            return _Rule.NONE
        return _Rule.STRINGS if self._find_whole(folded) is None else _Rule.WHOLE

    def _rule(self, name: str) -> _Rule:
        return self._remembered(name) if len(name) <= MAX_REMEMBERED_NAME else self._judge(name)

    def text(self, value: str, suspicion: Suspicion, counts: Findings) -> str:
        """Scrub one string, and count by kind what was hidden. With candidates beyond the budget it is hidden whole."""
        shown = self.kept_text(value, suspicion, counts)
        for form in suspicion.forms:
            places = form.find(shown, counts.budget)
            if places is None:
                counts[TOO_MANY] += 1
                return tellings.mark(TOO_MANY)
            if places:
                shown = tellings.hide(shown, form.kind, places)
                counts[form.kind] += len(places)
        return shown

    def kept_text(self, value: str, suspicion: Suspicion, counts: Findings) -> str:
        """Scrub a string that is never changed for its form: it is hidden whole when it holds a secret of ours."""
        if not suspicion.own:
            return value
        shown = without_own(value)
        if shown is not value:
            counts[OWN_SECRET] += 1
        return shown

    def tree(
        self, holder: dict[str, Any], suspicion: Suspicion, counts: Findings, kept: frozenset[str] = frozenset()
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

    def spelt(self, holder: dict[str, Any], counts: Findings) -> None:
        """Hide each text with a value under a telling name, such as a printed object, in place (G-202).

        Of variables, SDKs send many as their languages print them. `tree` knows a name by its member alone.
        """
        open_nodes: list[Any] = [holder]
        while open_nodes:
            node = open_nodes.pop()
            for key, value in node.items() if type(node) is dict else enumerate(node):
                if type(value) is str:
                    if any(self._rule(name) is not _Rule.NONE for name in _NAMES_IN_TEXT(value)):
                        node[key] = SCRUBBED
                        counts[NAME] += 1
                elif type(value) is dict or type(value) is list:
                    open_nodes.append(value)

    def _items(self, node: list[Any], suspicion: Suspicion, counts: Findings, open_nodes: list[Any]) -> None:
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
        counts: Findings,
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

    def _hide_strings(self, top: dict[str, Any] | list[Any], suspicion: Suspicion, counts: Findings) -> None:
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

    def _names(self, node: dict[str, Any], suspicion: Suspicion, counts: Findings) -> None:
        """A name that holds a secret is a string like any other; no member is lost when two become equal."""
        shown = [self.text(name, suspicion, counts) for name in node]
        if shown != list(node):
            values = list(node.values())
            node.clear()
            for name, value in zip(shown, values, strict=True):
                node[name if name not in node else f"{name} {len(node)}"] = value


def without_own(text: str) -> str:
    """Return a text, or the mark when it holds a secret of this service (G-033)."""
    return SCRUBBED if tellings.holds_own_secret(text) else text


def hide_own(*texts: Any) -> tuple[list[Any], int]:
    """Hide each text (or None) that holds a secret of this service; returns them, and how many were hidden (G-033)."""
    shown = [text if text is None else without_own(text) for text in texts]
    return shown, sum(new != old for new, old in zip(shown, texts, strict=True))
