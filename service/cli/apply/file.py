"""The file of a contract: its text, its document, and the line of each member."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from schemas.contracts.contract import MAX_CONTRACT_BYTES

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


class BadFile(Exception):
    """A file without a contract. The message says where and why."""


class ContractFile(NamedTuple):
    """A contract as it was written. `lines` has the line of each member by its path."""

    text: bytes
    document: dict[str, Any]
    lines: dict[str, int]

    def line_of(self, path: str) -> int:
        """The line of a member. A missing one has the line of its nearest parent."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, 1)


def read(content: bytes) -> ContractFile:
    """Read a file. Raises BadFile."""
    if len(content) > MAX_CONTRACT_BYTES:
        raise BadFile(f": has more than {MAX_CONTRACT_BYTES} bytes")
    try:
        text = content.decode()
        document = json.loads(text, object_pairs_hook=_members, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadFile(f":{line}: is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise BadFile(f":{error.lineno}:{error.colno}: is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise BadFile(": is nested too deeply") from error
    if not isinstance(document, dict):
        raise BadFile(": must be an object, with `policy_version` and `automations`")
    return ContractFile(content, document, lines_of(text))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise BadFile(f": names {json.dumps(name)} twice in one object")
        members[name] = value
    return members


def _refuse_constant(name: str) -> None:
    raise BadFile(f": has {name}, which is no number in JSON")


class _Level:
    """An open object or array, and its member at hand."""

    def __init__(self, path: str, *, is_array: bool) -> None:
        self.path, self.is_array = path, is_array
        self.index, self.name, self.at_name = 0, "", not is_array

    @property
    def place(self) -> str:
        """Path of the member at hand."""
        if self.is_array:
            return f"{self.path}[{self.index}]"
        return f"{self.path}.{self.name}" if self.path else self.name


def lines_of(text: str) -> dict[str, int]:
    """The line of each member of a valid JSON text, by its path."""
    lines: dict[str, int] = {}
    levels: list[_Level] = []
    line, end = 1, 0
    for found in _PART.finditer(text):
        line += text.count("\n", end, found.start())
        part, end = found[0], found.start()
        here = levels[-1] if levels else None
        if here and here.at_name and part[0] == '"':
            here.name, here.at_name = json.loads(part), False
            lines[here.place] = line
        elif part == "," and here:
            here.index, here.at_name = here.index + 1, not here.is_array
        elif part in "]}":
            levels.pop()
        elif part not in ":,":
            place = here.place if here else ""
            lines.setdefault(place, line)
            if part in "[{":
                levels.append(_Level(place, is_array=part == "["))
    return lines
