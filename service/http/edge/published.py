"""Components as client generators read them: what msgspec writes for its own decoder, in words that all agree on."""

from __future__ import annotations

import inspect
import re
from typing import Any

# The lookahead keeps Python's `$` from matching before a newline at the end; other dialects have no such `$`, and RE2
# refuses the lookahead.
_END = r"(?!\n)$"
_RULES = re.compile(r"\s*\((?:[^()]*\b)?(?:R-[A-Z]+-|G-)\d[^()]*\)")


def publish(part: Any) -> Any:
    """A copy of a part of the document that generators take: see `_object` for what differs."""
    if isinstance(part, dict):
        return _object({name: publish(value) for name, value in part.items()})
    return [publish(item) for item in part] if isinstance(part, list | tuple) else part


def _object(part: dict[str, Any]) -> dict[str, Any]:
    """One object: patterns as RE2 reads them, plain prose, items for each array, and `true` as a constant that is sent.

    A default of null is dropped: it says no more than that the member is optional.
    """
    pattern, description = part.get("pattern"), part.get("description")
    if isinstance(pattern, str):
        part["pattern"] = pattern.replace(_END, "$")
    if isinstance(description, str):
        part["description"] = _RULES.sub("", inspect.cleandoc(description))
    if part.get("type") == "array" and "prefixItems" not in part:
        part.setdefault("items", {})
    if "default" in part and part["default"] is None and _is_schema(part):
        del part["default"]
    properties = part.get("properties")
    if part.get("type") == "object" and isinstance(properties, dict):
        constant = [name for name, schema in properties.items() if schema == {"enum": [True], "default": True}]
        properties |= {name: {"type": "boolean", "const": True} for name in constant}
        if constant:
            part["required"] = [*constant, *part.get("required", [])]
    return part


def _is_schema(part: dict[str, Any]) -> bool:
    """Whether an object is a schema, and no map of members one of which is called `default`."""
    return not part.keys().isdisjoint({"type", "anyOf", "oneOf", "$ref", "enum", "const"})
