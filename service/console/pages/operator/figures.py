"""The metrics of the service in the text form of Prometheus, read back into numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

LINE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class ReadFigure(NamedTuple):
    """A number with its labels."""

    name: str
    labels: Mapping[str, str]
    value: float


class Figures:
    """All numbers of a reading, by name."""

    def __init__(self, text: str) -> None:
        self._found: dict[str, list[ReadFigure]] = {}
        for figure in _read(text):
            self._found.setdefault(figure.name, []).append(figure)

    def one(self, name: str) -> float | None:
        """The number of a name without labels. None when it is missing."""
        found = self._found.get(name)
        return found[0].value if found else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """The numbers of a name by one of its labels."""
        return {one.labels.get(label, ""): one.value for one in self._found.get(name, ())}


def _read(text: str) -> Iterator[ReadFigure]:
    for line in text.split("\n"):
        found = None if line.startswith("#") else LINE.fullmatch(line.strip())
        if found is not None:
            yield ReadFigure(found["name"], dict(LABEL.findall(found["labels"] or "")), float(found["value"]))
