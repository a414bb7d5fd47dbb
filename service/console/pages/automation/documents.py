"""Contracts as documents: the input of a save, a merge with a candidate, and differences line by line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

Json = dict[str, Any]

POLICY_VERSION = 2
MEMBERS = ("playbook", "bindings", "readiness_assertions", "policy")
"""Of an entry, as a save takes it."""
MOST_LINES = 4000


class DiffLine(NamedTuple):
    """A line of a comparison: `added`, `removed`, `kept`, or `apart` between two places."""

    kind: str
    text: str


def document_of(contract: Json | None) -> Json | None:
    """A saved contract as a save would take it."""
    if contract is None:
        return None
    return {"policy_version": POLICY_VERSION, "automations": [_entry(one) for one in contract["automations"]]}


def with_candidate(saved: Json | None, candidate: Json) -> Json:
    """The saved document with the automations of a candidate in it, each in place of the one with its id."""
    new = {_id(entry): entry for entry in candidate["automations"]}
    kept = [] if saved is None else [new.pop(_id(entry), entry) for entry in saved["automations"]]
    return {"policy_version": POLICY_VERSION, "automations": [*kept, *new.values()]}


def written(document: Any) -> str:
    """A document as text, in canonical order. Equal documents are equal line by line."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)


def differences(before: Any, after: Any) -> list[DiffLine]:
    """The different lines, with three around them. Empty for equal documents."""
    old = [] if before is None else written(before).split("\n")
    new = [] if after is None else written(after).split("\n")
    if old == new:
        return []
    lines: list[DiffLine] = []
    for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(3):
        if lines:
            lines.append(DiffLine("apart", "…"))
        for operation, first, last, begin, end in group:
            if operation == "equal":
                lines += _lines("kept", old[first:last])
                continue
            lines += _lines("removed", old[first:last])
            lines += _lines("added", new[begin:end])
    return lines[:MOST_LINES]


def _lines(kind: str, texts: Sequence[str]) -> list[DiffLine]:
    return [DiffLine(kind, text) for text in texts]


def _entry(automation: Json) -> Json:
    return {name: automation[name] for name in MEMBERS}


def _id(entry: Json) -> Any:
    bindings = entry.get("bindings") or {}
    return bindings.get("automation_id")
