"""Counts of a flush's analytics events by name: rows of each event, rows and JSON types of each of its keys.

Events of one name mostly have the same properties. Equal ones are counted as one first, and taken apart once (G-155).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from service.analytics.metadata import BITS, MAX_KEY


class NameSums(msgspec.Struct):
    """The sums of a flush for `ingest_names`. Places count from 1."""

    projects: list[str] = []
    project_rows: list[int] = []
    long_keys: list[int] = []
    name_places: list[int] = []
    names: list[str] = []
    name_rows: list[int] = []
    key_places: list[int] = []
    keys: list[str] = []
    key_rows: list[int] = []
    key_types: list[int] = []


class _NameTally:
    """Counts of one name: its rows, and rows and types of each key."""

    __slots__ = ("keys", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self.keys: dict[str, list[int]] = {}


class NamesTally:
    """The names of the events in a flush."""

    def __init__(self) -> None:
        self._alike: dict[tuple[str, str, tuple[str, ...], tuple[type, ...]], int] = {}

    def add(self, project_id: str, event: str, properties: Mapping[str, Any]) -> None:
        """Count an event of a project."""
        kind = (project_id, event, tuple(properties), tuple(map(type, properties.values())))
        self._alike[kind] = self._alike.get(kind, 0) + 1

    def sums(self) -> NameSums | None:
        """All counts so far, or None without any event."""
        if not self._alike:
            return None
        sums = NameSums()
        projects = self._apart()
        for project_id in sorted(projects):
            sums.projects.append(project_id)
            sums.project_rows.append(sum(name.rows for name in projects[project_id].values()))
            sums.long_keys.append(0)
            for event, name in projects[project_id].items():
                sums.name_places.append(len(sums.projects))
                sums.names.append(event)
                sums.name_rows.append(name.rows)
                for key, (rows, types) in name.keys.items():
                    if len(key) > MAX_KEY:
                        sums.long_keys[-1] += rows
                        continue
                    sums.key_places.append(len(sums.names))
                    sums.keys.append(key)
                    sums.key_rows.append(rows)
                    sums.key_types.append(types)
        return sums

    def _apart(self) -> dict[str, dict[str, _NameTally]]:
        """The names of each project, with equal events taken apart."""
        projects: dict[str, dict[str, _NameTally]] = {}
        for (project_id, event, keys, types), count in self._alike.items():
            names = projects.setdefault(project_id, {})
            name = names.get(event)
            if name is None:
                name = names[event] = _NameTally()
            name.rows += count
            of_keys = name.keys
            for key, type_ in zip(keys, types, strict=True):
                found = of_keys.get(key)
                if found is None:
                    of_keys[key] = [count, BITS[type_]]
                else:
                    found[0] += count
                    found[1] |= BITS[type_]
        return projects
