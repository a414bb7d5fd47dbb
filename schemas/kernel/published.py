"""Components as client generators read them: what msgspec writes for its own decoder, in words that all agree on."""

import inspect
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from schemas.kernel.shape import ALTERNATIVES, COMPONENT

# The lookahead keeps Python's `$` from matching before a newline at the end; other dialects have no such `$`, and RE2
# refuses the lookahead.
_END = r"(?!\n)$"
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")  # an escape that RE2 lacks
_LAST_BYTE = 0xFF
# What Python takes for white space. Other dialects take less or more for it: each character stands for itself.
_BLANKS = r"\t-\r\x1c-\x20\x85\xa0" + "\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_RULES = re.compile(r"\s*\((?:[^()]*\b)?(?:R-[A-Z]+-|G-)\d[^()]*\)")


def publish(part: Any) -> Any:
    """A copy of a part of the document that generators take: see `_object` for what differs."""
    if isinstance(part, dict):
        return _object({name: publish(value) for name, value in part.items()})
    return [publish(item) for item in part] if isinstance(part, list | tuple) else part


def _object(part: dict[str, Any]) -> dict[str, Any]:
    """One object: patterns as RE2 reads them, plain prose, items for each array, and `true` as a constant.

    An object of any members says so: a generator may take one that says nothing for an empty one.

    A decimal is a number, as the service writes it. A default of null is dropped: it says no more than that the member
    is optional.
    """
    pattern, description = part.get("pattern"), part.get("description")
    if isinstance(pattern, str):
        part["pattern"] = _ESCAPED.sub(_character, pattern.replace(_END, "$").replace(r"\s", _BLANKS))
    if isinstance(description, str):
        part["description"] = _RULES.sub("", inspect.cleandoc(description))
    if part.get("format") == "decimal":
        part |= {"type": "number"}
        del part["format"]
    if part.get("type") == "array" and "prefixItems" not in part:
        part.setdefault("items", {})
    if part.get("type") == "object" and "properties" not in part:
        part.setdefault("additionalProperties", True)
    if "default" in part and part["default"] is None and _is_schema(part):
        del part["default"]
    properties = part.get("properties")
    if part.get("type") == "object" and isinstance(properties, dict):
        constant = [name for name, schema in properties.items() if schema == {"enum": [True], "default": True}]
        properties |= {name: {"type": "boolean", "const": True} for name in constant}
        if constant:
            part["required"] = [*constant, *part.get("required", [])]
    return part


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return rf"\x{code:02x}" if code <= _LAST_BYTE else chr(code)


def publish_request(component: dict[str, Any]) -> dict[str, Any]:
    """A published component that requests are made of: what a member counts as when it is left out is told in words.

    Of a member with a default a generator may make one that is always there, which a sender would have to fill in.
    """
    members = {name: _told(schema) for name, schema in component.get("properties", {}).items()}
    return {**component, "properties": members} if members else component


def _told(schema: dict[str, Any]) -> dict[str, Any]:
    if "default" not in schema:
        return schema
    left_out = f"{json.dumps(schema['default'])} when left out."
    shown = {name: value for name, value in schema.items() if name != "default"}
    return {**shown, "description": f"{schema['description']} {left_out}" if "description" in schema else left_out}


def _is_schema(part: dict[str, Any]) -> bool:
    """Whether an object is a schema, and no map of members one of which is called `default`."""
    return not part.keys().isdisjoint({"type", "anyOf", "oneOf", "$ref", "enum", "const"})


def _components(*kinds: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of the first kind, and those that all kinds refer to by name."""
    [first, *_], definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return first, definitions


@cache
def body_schema(kind: Any) -> dict[str, Any]:
    """The published schema of a body, whole by itself: what a refusal shows (R-ERR-16).

    A reference would lead nowhere inside the refusal, so that each is replaced by what it names.
    """
    described, definitions = publish(_components(kind))
    if COMPONENT in json.dumps([described, definitions]):
        definitions = publish(_components(*ALTERNATIVES)[1]) | definitions
    inlined: dict[str, Any] = _inlined(described, definitions, ())
    return inlined


def _inlined(part: Any, definitions: dict[str, Any], within: tuple[str, ...]) -> Any:
    """The part with what its references name in their place; `within` are the names it stands in."""
    if isinstance(part, list):
        return [_inlined(item, definitions, within) for item in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    others = {name: value for name, value in part.items() if name != "$ref" or not isinstance(reference, str)}
    shown = {name: _inlined(value, definitions, within) for name, value in others.items()}
    if isinstance(discriminator := shown.get("discriminator"), dict):
        discriminator.pop("mapping", None)  # from values of the tag to references; each branch names its own value
    if not isinstance(reference, str):
        return shown
    name = reference.rpartition("/")[2]
    assert name not in within, f"{name} holds itself: it has no schema without references"
    return {**_inlined(definitions[name], definitions, (*within, name)), **shown}


# The documented operations as facts: who may call what, its limits, fences and success statuses. The table stands in
# operations.json beside this file. Code declares its own operations; a test holds the two equal, and whatever the
# code does not have answers 501 from this table.

Auth = Literal[
    "none",
    "key",
    "owner",
    "runner",
    "key_or_runner",
    "owner_or_runner",
    "dsn",
    "dsn_or_ci",
    "ci",
    "internal",
    "test",
    "signature",
]


class DocumentedOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row. None means that the general rule applies: size by G-004, strictness by G-003, no such header."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    group: str
    auth: Auth
    max_body_bytes: int | None
    strict_body: bool | None
    if_match: Literal["required", "optional_first_only"] | None
    idempotency_key: Literal["required", "optional"] | None
    success_status: tuple[int, ...]

    @property
    def closed_errors(self) -> bool:
        """Whether its errors have the closed envelope (G-018)."""
        project_deletion = self.method == "DELETE" and self.group == "deletion"
        return project_deletion or self.group in {"onboarding", "credentials", "automation"}


@cache
def documented_operations() -> tuple[DocumentedOperation, ...]:
    """Read the table."""
    text = Path(__file__).with_name("operations.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[DocumentedOperation, ...])
