"""The events of tests/foreign/event-samples, as Sentry's SDKs sent them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

SAMPLES = Path(__file__).parents[2] / "tests" / "foreign" / "event-samples"
_FOLDERS = ("bugsink", "glitchtip", "sentry")

Payload: TypeAlias = dict[str, Any]


def events() -> dict[str, Payload]:
    """Each event by its name, `folder/file` without the extension, in the order of the names."""
    files = sorted(file for folder in _FOLDERS for file in (SAMPLES / folder).glob("*.json"))
    return {f"{file.parent.name}/{file.stem}": json.loads(file.read_bytes()) for file in files}


def platforms(found: Mapping[str, Payload]) -> dict[str, str]:
    """The platform of each event by its name."""
    return {name: str(payload.get("platform")) for name, payload in found.items()}


def exceptions(payload: Mapping[str, Any]) -> list[Payload]:
    """The exceptions of an event, its main one last: as `{"values": […]}`, as a bare list, or as one object."""
    listed = payload.get("exception")
    if isinstance(listed, dict):
        listed = listed.get("values", [listed])
    return [value for value in listed or () if isinstance(value, dict)]


def alone(payload: Payload) -> Payload:
    """An event without the causes of its main exception."""
    found = exceptions(payload)
    return {**payload, "exception": {"values": found[-1:]}} if len(found) > 1 else payload
