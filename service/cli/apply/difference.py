"""The difference of two contracts, as lines for people: stable, and with the name of each changed member."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from schemas.contracts.contract import AutomationContract, ContractAutomation

_ABSENT = object()


def difference(saved: AutomationContract | None, document: dict[str, Any]) -> list[str]:
    """Compare the automations of the saved contract with those of a valid document, each by its id."""
    new = {entry["bindings"]["automation_id"]: entry for entry in document["automations"]}
    return _compare(_entries(saved), new)


def state_difference(before: AutomationContract | None, after: AutomationContract | None) -> list[str]:
    """Compare two reads of the saved contract: revision, state and automations."""
    old, new = _state(before), _state(after)
    lines = [f"~ {name}: {old[name]} → {new[name]}" for name in new if old[name] != new[name]]
    return lines + _compare(_entries(before), _entries(after))


def _compare(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for automation_id in sorted({*old, *new}):
        if automation_id not in old:
            lines.append(f"+ automation {automation_id}: {_playbook(new[automation_id])}")
        elif automation_id not in new:
            lines.append(f"- automation {automation_id}: {_playbook(old[automation_id])}")
        elif changed := list(changes(old[automation_id], new[automation_id])):
            lines += [f"~ automation {automation_id}", *(f"  {line}" for line in changed)]
    before, after = [name for name in old if name in new], [name for name in new if name in old]
    if before != after:
        lines.append(f"~ order: {', '.join(before)} → {', '.join(after)}")
    return lines


def changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """A line for each member with another value. Arrays of one length are compared by place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            inner = f"{path}.{name}" if path else name
            yield from changes(before.get(name, _ABSENT), after.get(name, _ABSENT), inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, f"{path}[{index}]")
    elif before is _ABSENT:
        yield f"+ {path}: {_shown(after)}"
    elif after is _ABSENT:
        yield f"- {path}: {_shown(before)}"
    elif not _same(before, after):
        yield f"~ {path}: {_shown(before)} → {_shown(after)}"


def _same(before: Any, after: Any) -> bool:
    """Whether two values are one in canonical JSON: 1 and 1.0 are, 1 and true are not."""
    return before == after and isinstance(before, bool) == isinstance(after, bool)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _entries(contract: AutomationContract | None) -> dict[str, dict[str, Any]]:
    """The saved automations by id, each with the members of a file alone."""
    return {} if contract is None else {entry.automation_id: _entry(entry) for entry in contract.automations}


def _entry(saved: ContractAutomation) -> dict[str, Any]:
    return {
        "playbook": msgspec.to_builtins(saved.playbook),
        "bindings": saved.bindings,
        "readiness_assertions": saved.readiness_assertions,
        "policy": saved.policy,
    }


def _playbook(entry: dict[str, Any]) -> str:
    return f"{entry['playbook']['id']} {entry['playbook']['version']}"


def _state(contract: AutomationContract | None) -> dict[str, str]:
    if contract is None:
        return {"revision": "none", "enabled": "none", "paused": "no", "changed by": "nobody"}
    return {
        "revision": str(contract.revision),
        "enabled": ", ".join(enabled_of(contract)) or "none",
        "paused": "yes" if contract.paused else "no",
        "changed by": contract.updated_by,
    }


def enabled_of(contract: AutomationContract | None) -> list[str]:
    """Ids of the enabled automations."""
    return [] if contract is None else [entry.automation_id for entry in contract.automations if entry.enabled]
