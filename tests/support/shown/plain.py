"""Exchanges without what differs each time: ids, secrets, hashes, times and addresses get values that stay the same."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from statemachines.contracts.playbook import PUBLISHED, reference

HOST = "https://service.example"
OTHERS = "https://other.example"
DAY_ONE = 1_767_225_600
"""Midnight at which 2026 begins: the earliest time of an exchange becomes this."""
ALIAS = 4711
LONG_AGO, FAR_OFF = 1_500_000_000, 2_500_000_000
MICROSECONDS = 1_000_000
MOST_ITEMS = 2
"""Objects that an example shows of a list."""
MOST_TEXT = 400
"""Characters that it shows of a text."""

PUBLISHED_HASHES = {reference(template).template_hash for template in PUBLISHED}
"""Hashes of the playbooks: they never change, and the schemas name them."""

_ID = re.compile(r"\b([a-z]+)_([0-9a-z]{26})\b")
_HASH = re.compile(r"\b[0-9a-f]{64}\b")
_HERE = re.compile(r"https?://127\.0\.0\.1:\d+")
_TIME = re.compile(r"(_at|_for|_from|_until|_start|_end|_to)$|^(since|from|to|at|as_of|date|server_time|created)$")
_CODE = re.compile(r"\b[A-Z]{4}-[A-Z]{4}\b")
_BOUNDARY = re.compile(r"(?m)^--[0-9a-f]{32}")
_PUBLICATION = re.compile(r"(?<=/v1/public/q/)[^/?\"]+")
_FILLER = "Example0" * 32

_NAMED_SECRET = re.compile(r"(service_(?:sk|ci|runner|dsn_pub|dsn)_|agp_|whsec_)([0-9A-Za-z+/=_-]+)")
_RUN = re.compile(r"\b[0-9A-Za-z_-]{40,120}\b")
_TOKEN = re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+")
_DSN = re.compile(r"http://([^\s@\"]+@)127\.0\.0\.1:\d+")


def _is_random(text: str) -> bool:
    """Whether a run of letters and digits is one that nobody chose: of three kinds, and not filled in already."""
    kinds = (any(c.isdigit() for c in text), any(c.isupper() for c in text), any(c.islower() for c in text))
    return all(kinds) and "Example0" not in text


class Plain:
    """One exchange made plain. Equal values stay equal within it. `known` are secrets that must not be left in it."""

    def __init__(self, host: str, known: frozenset[str] = frozenset()) -> None:
        self._host = host
        self._known = known
        self._ids: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._earliest: dict[int, int] = {}
        self._aliases: set[int] = set()

    def see(self, *values: Any) -> None:
        """Note the times of an exchange, so that the earliest can become that of the example."""
        for value in values:
            for name, number in _numbers(value):
                if name == "alias":
                    self._aliases.add(number)
                if unit := _unit(name, number):
                    self._earliest[unit] = min(number, self._earliest.get(unit, number))

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON value made plain."""
        match value:
            case dict():
                shown = {self.text(key): self.value(member, key) for key, member in value.items()}
                return _counted(value, shown)
            case list():
                return [self.value(item, name) for item in _shortened(value)]
            case str():
                return "bmV4dCBwYWdl" if name in {"next_cursor", "cursor"} else self.text(value)
            case bool() | None | float():
                return value
        return self._number(value, name)

    def _number(self, number: int, name: str) -> int:
        if name == "alias":
            return ALIAS
        unit = _unit(name, number)
        return DAY_ONE * unit + number - self._earliest.get(unit, number) if unit else number

    def text(self, text: str) -> str:
        """A text made plain. Fails if a secret is left in it."""
        text = _DSN.sub(lambda m: f"https://{m[1]}{HOST.removeprefix('https://')}", text.replace(self._host, HOST))
        text = _HERE.sub(OTHERS, text)
        text = _TOKEN.sub("eyJhbGciOiJSUzI1NiJ9.e30.Example0", text)
        for alias in self._aliases:
            text = text.replace(str(alias), str(ALIAS))
        text = _PUBLICATION.sub(lambda m: self._id(m[0], "pub"), text)
        text = _ID.sub(lambda m: self._id(m[0], m[1]), text)
        text = _HASH.sub(lambda m: self._hash(m[0]), text)
        text = _BOUNDARY.sub("--example", text)
        text = _CODE.sub("WDJB-MJHT", text)
        text = _NAMED_SECRET.sub(lambda m: m[1] + _FILLER[: len(m[2])], text)
        text = _RUN.sub(lambda m: _FILLER[: len(m[0])] if _is_random(m[0]) else m[0], text)
        left = [secret for secret in self._known if secret in text]
        assert left == [], "a secret would be shown"
        return text

    def _id(self, found: str, prefix: str) -> str:
        alike = sum(known.startswith(f"{prefix}_") for known in self._ids)
        return self._ids.setdefault(found, f"{prefix}_01k{alike + 1:023d}")

    def _hash(self, found: str) -> str:
        if found in PUBLISHED_HASHES:
            return found
        number = f"example {len(self._hashes)}".encode()
        return self._hashes.setdefault(found, hashlib.sha256(number).hexdigest())


def _shortened(items: list[Any]) -> list[Any]:
    return items[:MOST_ITEMS] if items and isinstance(items[0], dict) else items


def _counted(value: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
    """An object whose `count` counts the items that are shown."""
    for name, member in value.items():
        if isinstance(member, list) and value.get("count") == len(member):
            return {**shown, "count": len(shown[name])}
    return shown


def _unit(name: str, number: Any) -> int:
    """What a second is in the unit of a time; 0 for a number that is none."""
    if not _TIME.search(name) or not isinstance(number, int) or isinstance(number, bool):
        return 0
    return next((unit for unit in (1, MICROSECONDS) if LONG_AGO * unit < number < FAR_OFF * unit), 0)


def _numbers(value: Any, name: str = "") -> list[tuple[str, int]]:
    match value:
        case dict():
            return [found for key, member in value.items() for found in _numbers(member, key)]
        case list():
            return [found for item in value for found in _numbers(item, name)]
        case int() if not isinstance(value, bool):
            return [(name, value)]
    return []
