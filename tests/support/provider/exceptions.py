"""What a provider says of its exceptions, by hand: its clock, counts by group, and samples.

A row shows from `shows_at` on (epoch seconds of the real clock), as one that its pipeline holds up does.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

Event = dict[str, Any]
_PLACES = ("environment", "$environment", "deployment.environment.name", "deployment.environment")
_RELEASES = ("release", "$release", "$app_version")


def exception(
    kind: str = "KeyError",
    value: str = "missing",
    function: str = "pay",
    *,
    filename: str = "app/pay.py",
    frames: bool = True,
    **properties: Any,
) -> dict[str, Any]:
    """Properties of an exception as the provider stores them: resolved frames, and a fingerprint of its own."""
    frame = {
        "source": filename,
        "resolved_name": function,
        "line": 7,
        "in_app": True,
        "lang": "python",
        "resolved": True,
        "raw_id": "a/0",
    }
    told: dict[str, Any] = {"type": kind, "value": value, "mechanism": {"handled": False}}
    if frames:
        told["stacktrace"] = {"type": "resolved", "frames": [frame]}
    own = {"$exception_fingerprint": "0f" * 64, "$exception_list": [told]}
    return {**own, "environment": "production", "release": "1.0.0", "distinct_id": "ann", **properties}


def stored(event: str, at: float, shows_at: float, properties: dict[str, Any]) -> Event:
    """A row of the provider's table."""
    return {"event": event, "created_at": at, "properties": properties, "uuid": str(uuid4()), "shows_at": shows_at}


def answer(events: list[Event], query: str, values: dict[str, Any], now: int) -> list[list[Any]] | None:
    """The rows of a question about exceptions. None for any other question."""
    if "event = '$exception'" not in query:
        return None
    rows = [one for one in events if one["event"] == "$exception" and one["shows_at"] <= time.time()]
    if "toIntervalSecond" in query:
        since = max(values["since"], now - values["reach"])
        return [[now, sum(int(one["created_at"]) >= since for one in rows)]]
    rows = [one for one in rows if values["since"] <= int(one["created_at"]) < values["until"]]
    if "ids" in values:
        told = [(one["uuid"], json.dumps(one["properties"])) for one in rows if one["uuid"] in values["ids"]]
        return [[uuid, text if len(text) <= values["longest"] else ""] for uuid, text in told]
    if "groups" not in values:
        return [[len(rows)]]
    rows = sorted(rows, key=lambda one: one["created_at"])[: values["events"]]
    return list(_grouped(rows, values["proof"]))[: values["groups"]]


def _grouped(rows: list[Event], proof: str) -> Iterator[list[Any]]:
    found: dict[tuple[Any, ...], list[Event]] = {}
    for one in rows:
        key = (*_told(one["properties"], proof), int(one["created_at"]) // 60 * 60)
        found.setdefault(key, []).append(one)
    for key in sorted(found, key=lambda key: (key[-1], -len(found[key]))):
        some = found[key]
        people = {one["properties"].get("distinct_id", "") for one in some}
        times = [int(one["created_at"]) for one in some]
        happened = max(int(one["properties"].get("happened", one["created_at"])) for one in some)
        ids = [one["uuid"] for one in some]
        yield [*key, len(some), len(people), min(times), max(times), happened, ids, ids[-1]]


def _told(properties: dict[str, Any], proof: str) -> tuple[Any, ...]:
    told = (properties.get("$exception_list") or [{}])[0]
    frames = "\n".join(
        f"{f.get('filename', '')}{f.get('source', '')}\t{f.get('function', '')}{f.get('resolved_name', '')}"
        for f in told.get("stacktrace", {}).get("frames", [])[-8:]
        if isinstance(f, dict)
    )
    value = told.get("value") if isinstance(told.get("value"), str) else properties.get("$exception_message", "")
    said = re.sub("[0-9]+", "0", value)[:200]
    client = properties.get("$exception_fingerprint", "")
    return (
        (told.get("type") or properties.get("$exception_type", ""))[:200],
        frames[:1000],
        "" if frames else said,
        "" if len(client) >= 64 else client,
        properties.get("$exception_level", ""),
        next((properties[name] for name in _PLACES if properties.get(name)), ""),
        next((properties[name] for name in _RELEASES if properties.get(name)), ""),
        int(proof in properties),
    )
