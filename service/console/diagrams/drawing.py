"""The machine of a stream with the way that the stream has taken: lit states and arrows, and the same in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from service.console.diagrams.layout import NODE_HEIGHT, DrawingLayout, Point, lay_out
from service.registry import machines

HEAD = 5.0


class Passed(NamedTuple):
    """An event of a stream: its number in there, and its topic."""

    revision: int
    topic: str


class WayStep(NamedTuple):
    """Events after which a stream stood in one state: the first and the last number, and the topics."""

    state: str
    first: int
    last: int
    topics: Sequence[str]


class DrawnState(NamedTuple):
    """A state: its box, its words, its kind ("", "passed" or "now"), and how often an event led to it."""

    label: str
    kind: str
    x: float
    y: float
    width: float
    height: float
    visits: int


class DrawnArrow(NamedTuple):
    """An arrow: its line, its head, whether the stream took it, and what it says when pointed at."""

    line: str
    head: str
    lit: bool
    words: str


class Drawing(NamedTuple):
    """A picture, and the way in words."""

    width: int
    height: int
    states: Sequence[DrawnState]
    arrows: Sequence[DrawnArrow]
    steps: Sequence[WayStep]


def draw(kind: str, passed: Sequence[Passed]) -> Drawing | None:
    """Draw the machine of a kind of stream with the way of some events of one. None for a kind without a machine."""
    found = machines().get(kind)
    if found is None:
        return None
    table, layout = found.table, _layout(kind)
    leads = _leads(kind)
    here = found.initial.status.name
    visits: dict[str, int] = {}
    lit: set[tuple[str, str]] = set()
    steps: list[WayStep] = []
    number = 0
    for one in passed:
        target = leads.get(one.topic, here)
        if one.revision == number + 1 and table.get_transitions(one.topic, here):
            lit.add((here, target))
        here, number = target, one.revision
        visits[here] = visits.get(here, 0) + 1
        if steps and steps[-1].state == words(here) and steps[-1].last + 1 == one.revision:
            before = steps[-1]
            steps[-1] = before._replace(last=one.revision, topics=[*dict.fromkeys([*before.topics, one.topic])])
        else:
            steps.append(WayStep(words(here), one.revision, one.revision, [one.topic]))
    states = [
        DrawnState(
            words(node.name),
            "now" if node.name == here else "passed" if node.name in visits else "",
            round(node.x - node.width / 2, 1),
            round(node.y - NODE_HEIGHT / 2, 1),
            round(node.width, 1),
            NODE_HEIGHT,
            visits.get(node.name, 0),
        )
        for node in layout.nodes
    ]
    joined = _joined(kind)
    arrows = [
        DrawnArrow(
            _line(way.points),
            _head(way.points),
            (way.source, way.target) in lit,
            f"{words(way.source)} to {words(way.target)}: {', '.join(joined[way.source, way.target])}",
        )
        for way in layout.ways
    ]
    return Drawing(round(layout.width), round(layout.height), states, sorted(arrows, key=lambda one: one.lit), steps)


def words(name: str) -> str:
    """A state as a person reads it."""
    return name.lower().replace("_", " ")


@cache
def _leads(kind: str) -> dict[str, str]:
    """The state that each topic leads to: one whatever its source. Topics without one stay where they are."""
    return {topic: target for (_, target), topics in _joined(kind, loops=True).items() for topic in topics}


@cache
def _joined(kind: str, *, loops: bool = False) -> dict[tuple[str, str], list[str]]:
    """The topics of each arrow."""
    found: dict[tuple[str, str], list[str]] = {}
    table: Any = machines()[kind].table
    for topic in table.events:
        for row in table.get_transitions(topic):
            if row.dest is not None and (loops or row.source != row.dest):
                found.setdefault((row.source, row.dest), []).append(topic)
    return found


@cache
def _layout(kind: str) -> DrawingLayout:
    found = machines()[kind]
    begin = found.initial.status.name
    names: Iterable[str] = found.table.states
    return lay_out([begin, *(name for name in names if name != begin)], _joined(kind))


def _line(points: Sequence[Point]) -> str:
    """A curve that leaves and reaches each point upright."""
    (x, y), *others = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in others:
        middle = (y + next_y) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return "".join(parts)


def _head(points: Sequence[Point]) -> str:
    (x, y), before = points[-1], points[-2]
    back = y - 2 * HEAD if before[1] < y else y + 2 * HEAD
    return f"{x:.1f},{y:.1f} {x - HEAD:.1f},{back:.1f} {x + HEAD:.1f},{back:.1f}"
