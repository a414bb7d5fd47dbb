"""Reading the origins of an answer as a client does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def origins_in(answer: dict[str, Any]) -> dict[str, str]:
    """The origin of each leaf of an answer by its pointer, by the nearest map. Fails unless there is exactly one."""
    return dict(_origins(answer, "", "", {}))


def _origins(value: Any, pointer: str, base: str, known: dict[str, str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and "origins" in value:
        base, known = pointer, value["origins"]
        value = {name: member for name, member in value.items() if name != "origins"}
    inside = pointer[len(base) :]
    covering = [origin for one, origin in known.items() if inside == one or inside.startswith(f"{one}/")]
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    children = list(parts)
    if not children:
        # An object that is absent now, or an empty list, may be described below or by its own items.
        described = any(one.startswith(f"{inside}/") for one in known)
        assert len(covering) == 1 or (not covering and (described or value in (None, []))), pointer
        if covering:
            yield pointer, covering[0]
    for name, child in children:
        yield from _origins(child, f"{pointer}/{name}", base, known)
