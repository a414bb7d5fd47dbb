"""Contracts as documents: the input of a save, and a merge with a candidate."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

POLICY_VERSION = 2
MEMBERS = ("playbook", "bindings", "readiness_assertions", "policy")
"""Of an entry, as a save takes it."""


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


def _entry(automation: Json) -> Json:
    return {name: automation[name] for name in MEMBERS}


def _id(entry: Json) -> Any:
    bindings = entry.get("bindings") or {}
    return bindings.get("automation_id")
