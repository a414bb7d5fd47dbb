"""What must not be stored: values under telling names, secrets of this service, and secrets by form (G-033, G-135).

The usual event has nothing to hide, so a look over its bytes says whether to walk it at all, and for what (see
`looking`). The walk keeps no stack of calls, changes the decoded event in place, and touches each value once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Any

from schemas.onboarding.proof import PROOF_PROPERTY
from service.ingest.scrub.looking import MAX_REMEMBERED_NAME, Suspicion, TextLook, fold_name
from statemachines.kernel.forms import FormBudget, hide, mark
from statemachines.kernel.telling import SECRET_FRAGMENTS, STRING_FRAGMENTS, STRING_NAMES, holds_own_secret

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
        self.budget = FormBudget()


class _Rule(Enum):
    """What a name means for its value."""

    NONE = 0
    STRINGS = 1  # strings are hidden at any depth, numbers and booleans stay
    WHOLE = 2


class Scrubber:
    """The rules in force. `more_names` are added to the list, in any spelling: they hide their values whole."""

    def __init__(self, more_names: Iterable[str] = ()) -> None:
        added = [name for name in map(fold_name, more_names) if name]
        whole = "|".join(map(re.escape, (*SECRET_FRAGMENTS, *added)))
        strings = "|".join(STRING_FRAGMENTS)
        equal = "|".join(STRING_NAMES)
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
                return mark(TOO_MANY)
            if places:
                shown = hide(shown, form.kind, places)
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
    return SCRUBBED if holds_own_secret(text) else text


def hide_own(*texts: Any) -> tuple[list[Any], int]:
    """Hide each text (or None) that holds a secret of this service; returns them, and how many were hidden (G-033)."""
    shown = [text if text is None else without_own(text) for text in texts]
    return shown, sum(new != old for new, old in zip(shown, texts, strict=True))
