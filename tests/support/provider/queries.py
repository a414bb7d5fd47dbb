"""The provider's query endpoint on rows that a test captures, by hand: HogQL is not read, only told apart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.provider.exceptions import answer, stored


def _environment(event: dict[str, Any]) -> str:
    """The first text that names the environment of an event."""
    names = ("environment", "$environment", "deployment.environment.name", "deployment.environment")
    texts = [event["properties"].get(name) for name in names]
    return next((text for text in texts if isinstance(text, str) and text), "")


@dataclass
class QueryServer:
    """What the telemetry of a provider project holds."""

    events: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, list[Any]] = field(default_factory=dict)  # rows by a part of the query that they answer
    columns: dict[str, list[str]] = field(default_factory=dict)  # their names, for those that are not known
    project_key: str = "phc_of_the_project"  # with which the provider's SDKs send
    clock: Callable[[], float] = time.time
    clock_off: int = 0  # seconds by which its clock is ahead

    @property
    def now(self) -> float:
        """The time by its clock."""
        return self.clock() + self.clock_off

    def capture(self, event: str, at: float | None = None, shows_at: float = 0, **properties: Any) -> str:
        """Store an event as received at a time of its clock (now without one). Returns its uuid."""
        self.events.append(stored(event, at or self.now, shows_at, properties))
        return str(self.events[-1]["uuid"])

    def receive(self, body: Any) -> tuple[int, Any]:
        """Take a batch as the provider's SDKs send it."""
        if body.get("api_key") != self.project_key:
            return 401, {"type": "authentication_error", "code": "invalid_api_key", "detail": "Invalid."}
        for sent in body["batch"]:
            self.capture(sent["event"], self.now, **{"distinct_id": sent["distinct_id"], **sent["properties"]})
        return 200, {"status": "Ok"}

    def answer_query(self, body: Any) -> tuple[int, Any]:  # noqa: PLR0911 - one return for each kind of question
        query, values = body["query"]["query"], body["query"]["values"]
        assert body["query"]["kind"] == "HogQLQuery"
        assert all(f"{{{name}}}" in query for name in values), "every value is a parameter of the query"
        assert "limit" in query, "every query is bounded"
        if (told := answer(self.events, query, values, int(self.now))) is not None:
            return 200, {"columns": [], "results": told, "hasMore": False}
        for part, rows in self.tables.items():
            if part in query:
                return 200, {"columns": self.columns.get(part, []), "results": rows, "hasMore": False}
        if "failure" in values or "limit" in values:
            read = self._newest_rows if "failure" in values else self._keys if "hidden" in values else self._names
            return 200, {"results": read(values)}
        if "toUnixTimestamp(max(created_at)) from" in query:
            newest = max((int(event["created_at"]) for event in self.events), default=0)
            return 200, {"columns": ["max"], "results": [[newest]], "hasMore": False}
        if "window" in values:
            return 200, {"columns": ["level", "count()"], "results": self._levels(values), "hasMore": False}
        if "event" in values:
            counted = self._traffic(values) if values.keys() & {"environment", "looked"} else [self._count(values)]
            return 200, {"results": [counted], "hasMore": False}
        rows = [
            [event["event"], int(event["created_at"]), json.dumps(event["properties"])]
            for event in self.events
            if event["event"] in values["events"]
            and values["since"] <= event["created_at"] < values["until"]
            and event["properties"].get("service_onboarding_proof") is not None
        ]
        return 200, {"columns": ["event", "created_at", "properties"], "results": rows, "hasMore": False}

    def _count(self, values: dict[str, Any]) -> int:
        return sum(event["event"] == values["event"] for event in self._within(values))

    def _traffic(self, values: dict[str, Any]) -> list[int]:
        """Of the newest events before a time how many there are and name an environment; else of which one, or none."""
        events = sorted((e for e in self.events if e["event"] == values["event"]), key=lambda e: -e["created_at"])
        if "looked" in values:
            before = [_environment(event) for event in events if event["created_at"] <= values["since"]]
            looked = before[: values["looked"]]
            return [len(looked), len(looked) - looked.count("")]
        places = [_environment(e) for e in events if values["since"] < e["created_at"] <= values["until"]]
        return [places.count(values["environment"]), places.count("")]

    def _within(self, values: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for event in self.events:
            named = "events" not in values or event["event"] in values["events"]
            if named and values["since"] <= event["created_at"] < values["until"]:
                yield event

    def _names(self, values: dict[str, Any]) -> list[list[Any]]:
        """Rows, people, first and last time of each name, by hand."""
        found: dict[str, list[dict[str, Any]]] = {}
        for event in self._within(values):
            found.setdefault(event["event"], []).append(event)
        rows = []
        for name, events in found.items():
            people = {event["properties"].get("distinct_id", "") for event in events}
            times = [int(event["created_at"]) for event in events]
            rows.append([name, len(events), len(people), min(times), max(times)])
        return sorted(rows, key=lambda row: (-row[1], row[0]))[: values["limit"]]

    def _keys(self, values: dict[str, Any]) -> list[list[Any]]:
        """Rows of each key, and the types of its values as the server calls them, by hand."""
        kinds = {str: "String", int: "Int64", float: "Double", bool: "Bool", type(None): "Null", list: "Array"}
        found: dict[tuple[str, str], list[str]] = {}
        for event in self._within(values):
            for key, value in event["properties"].items():
                if key != values["hidden"]:
                    found.setdefault((event["event"], key), []).append(kinds.get(type(value), "Object"))
        rows = [[event, key, len(types), sorted(set(types))] for (event, key), types in found.items()]
        return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))[: values["limit"]]

    def _newest_rows(self, values: dict[str, Any]) -> list[list[Any]]:
        """Of each event the newest rows, their keys, and those that hold the marker of a failure, by hand."""
        answer = []
        for name in values["events"]:
            rows = [e for e in self.events if e["event"] == name and e["created_at"] >= values["earliest"]]
            rows = sorted(rows, key=lambda event: -event["created_at"])[: values["newest"]]
            shown = [event for event in rows if values["failure"] in json.dumps(event["properties"])]
            times = [max((int(event["created_at"]) for event in some), default=0) for some in (rows, shown)]
            keys = sorted({key for event in rows for key in event["properties"]})
            if rows:
                answer.append([name, len(rows), times[0], keys, len(shown), times[1]])
        return answer

    def _levels(self, values: dict[str, Any]) -> list[list[int]]:
        """How many people came to each level of an ordered funnel, and not further: windowFunnel, by hand."""
        people: dict[str, list[tuple[int, str]]] = {}
        for event in self.events:
            if event["event"] in values["events"] and values["since"] <= event["created_at"] < values["until"]:
                person = event["properties"].get("distinct_id", "")
                people.setdefault(person, []).append((int(event["created_at"]), event["event"]))
        levels: dict[int, int] = {}
        for seen in people.values():
            reached, since = 0, 0
            for step in values["events"]:
                after = [at for at, event in seen if event == step and at >= since]
                if not after:
                    break
                reached, since = reached + 1, min(after)
            if reached:
                levels[reached] = levels.get(reached, 0) + 1
        return [[level, count] for level, count in sorted(levels.items())]
