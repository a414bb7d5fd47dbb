"""The machine of a stream with the way that the stream has taken: lit states and arrows, and the same in words."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from service.registry import machines

# A place for each state of a machine and a way for each arrow, in layers from top to bottom. States go down by their
# longest way from the first one, and beside each other so that few arrows cross. Arrows that lead back up are laid as
# if they went down. An arrow over several layers has a bend in each.

NODE_HEIGHT = 40.0
LAYER = 88.0
CHARACTER = 7.4
PADDING = 26.0
NARROWEST = 104.0
MARGIN = 12.0
BESIDE = 18.0
BEND = 8.0
SWEEPS = 12
PORTS = 0.7

Arrow = tuple[str, str]
Point = tuple[float, float]


class Node(NamedTuple):
    """A state: its middle and its width."""

    name: str
    x: float
    y: float
    width: float


class Way(NamedTuple):
    """An arrow: the points it goes through, from its source to its target."""

    source: str
    target: str
    points: Sequence[Point]


class DrawingLayout(NamedTuple):
    """A drawing without its ink."""

    width: float
    height: float
    nodes: Sequence[Node]
    ways: Sequence[Way]


def lay_out(names: Sequence[str], arrows: Iterable[Arrow]) -> DrawingLayout:
    """Lay a graph out. The first of the names is at the top; each other one is reached from there."""
    forward, back = _without_circles(names, list(dict.fromkeys(arrows)))
    down = list(dict.fromkeys([*forward, *((target, source) for source, target in back)]))
    layer = _layers(names, down)
    chains = [_chain(arrow, layer) for arrow in down]
    rows = _ordered(names, layer, chains)
    widths = {name: max(len(name) * CHARACTER + PADDING, NARROWEST) for name in names}
    middles = _placed(rows, chains, widths)
    edges = [(middles[name], widths.get(name, BEND) / 2) for row in rows for name in row]
    left = min(x - half for x, half in edges) - MARGIN
    middles = {name: x - left for name, x in middles.items()}
    drawn = _ways(chains, layer, middles, widths)
    ways = [Way(*arrow, drawn[arrow]) for arrow in forward]
    for source, target in back:
        aside = BEND if (target, source) in forward else 0
        ways.append(Way(source, target, [(x + aside, y) for x, y in reversed(drawn[target, source])]))
    return DrawingLayout(
        max(x + half for x, half in edges) - left + MARGIN,
        _y(len(rows) - 1) + NODE_HEIGHT / 2 + MARGIN,
        [Node(name, middles[name], _y(layer[name]), widths[name]) for name in names],
        ways,
    )


def _y(layer: int) -> float:
    return MARGIN + NODE_HEIGHT / 2 + layer * LAYER


def _without_circles(names: Sequence[str], arrows: Sequence[Arrow]) -> tuple[list[Arrow], list[Arrow]]:
    """The arrows that lead on, and those that lead back to where a walk from the first state has come from."""
    after: dict[str, list[str]] = {name: [] for name in names}
    for source, target in arrows:
        if source != target:
            after[source].append(target)
    back: set[Arrow] = set()
    seen: set[str] = set()
    for begin in names:
        if begin in seen:
            continue
        seen.add(begin)
        trail = [(begin, iter(after[begin]))]
        while trail:
            here, left = trail[-1]
            on_trail = {name for name, _ in trail}
            for target in left:
                if target in on_trail:
                    back.add((here, target))
                elif target not in seen:
                    seen.add(target)
                    trail.append((target, iter(after[target])))
                    break
            else:
                trail.pop()
    real = [arrow for arrow in arrows if arrow[0] != arrow[1]]
    return [arrow for arrow in real if arrow not in back], [arrow for arrow in real if arrow in back]


def _layers(names: Sequence[str], down: Sequence[Arrow]) -> dict[str, int]:
    """The length of the longest way to each state."""
    layer = dict.fromkeys(names, 0)
    for _ in names:
        for source, target in down:
            layer[target] = max(layer[target], layer[source] + 1)
    return layer


def _chain(arrow: Arrow, layer: Mapping[str, int]) -> list[str]:
    """The states and bends that an arrow goes through."""
    source, target = arrow
    bends = [f"{source}>{target}>{row}" for row in range(layer[source] + 1, layer[target])]
    return [source, *bends, target]


def _ordered(names: Sequence[str], layer: Mapping[str, int], chains: Iterable[Sequence[str]]) -> list[list[str]]:
    """The states and bends of each layer from left to right, in the order with the fewest crossings that was found."""
    rows: list[list[str]] = [[] for _ in range(max(layer.values()) + 1)]
    for name in names:
        rows[layer[name]].append(name)
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for chain in chains:
        for step, bend in enumerate(chain[1:-1], layer[chain[0]] + 1):
            rows[step].append(bend)
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    best = [list(row) for row in rows]
    fewest = _crossings(best, below)
    for sweep in range(SWEEPS):
        near, order = (above, rows[1:]) if sweep % 2 == 0 else (below, rows[-2::-1])
        for row in order:
            places = {name: place for other in rows for place, name in enumerate(other)}
            sizes = {name: len(other) for other in rows for name in other}
            row.sort(key=lambda name: _barycentre(name, near, places, sizes))
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _barycentre(
    name: str, near: Mapping[str, Sequence[str]], places: Mapping[str, int], sizes: Mapping[str, int]
) -> float:
    around = [(places[other] + 0.5) / sizes[other] for other in near.get(name, ())]
    return sum(around) / len(around) if around else (places[name] + 0.5) / sizes[name]


def _crossings(rows: Sequence[Sequence[str]], below: Mapping[str, Sequence[str]]) -> int:
    found = 0
    for upper, lower in pairwise(rows):
        places = {name: place for place, name in enumerate(lower)}
        ends = [(place, places[other]) for place, name in enumerate(upper) for other in below.get(name, ())]
        found += sum(
            (one[0] - two[0]) * (one[1] - two[1]) < 0 for number, one in enumerate(ends) for two in ends[:number]
        )
    return found


def _placed(
    rows: Sequence[Sequence[str]], chains: Iterable[Sequence[str]], widths: Mapping[str, float]
) -> dict[str, float]:
    """The middle of each state and bend: near those it is bound to, and apart from those beside it."""
    near: dict[str, list[str]] = {}
    for chain in chains:
        for upper, lower in pairwise(chain):
            near.setdefault(lower, []).append(upper)
            near.setdefault(upper, []).append(lower)
    middles: dict[str, float] = {}
    for row in rows:
        middles |= _apart(row, [0.0] * len(row), widths)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = [
                sum(middles[other] for other in near[name]) / len(near[name]) if name in near else middles[name]
                for name in row
            ]
            middles |= _apart(row, wanted, widths)
    return middles


def _apart(row: Sequence[str], wanted: Sequence[float], widths: Mapping[str, float]) -> dict[str, float]:
    """Middles as near to the wanted ones as the widths allow: neighbours in each other's way share their distance."""
    offsets = [0.0]
    for one, two in pairwise(row):
        offsets.append(offsets[-1] + (widths.get(one, BEND) + widths.get(two, BEND)) / 2 + BESIDE)
    groups: list[tuple[float, int]] = []  # sum and number of what moves together
    for want, offset in zip(wanted, offsets, strict=True):
        total, number = want - offset, 1
        while groups and groups[-1][0] / groups[-1][1] >= total / number:
            before, count = groups.pop()
            total, number = total + before, number + count
        groups.append((total, number))
    bases = [total / number for total, number in groups for _ in range(number)]
    return {name: base + offset for name, base, offset in zip(row, bases, offsets, strict=True)}


def _ports(chains: Iterable[Sequence[str]], middles: Mapping[str, float], widths: Mapping[str, float]) -> list[float]:
    """Where each chain leaves the edge of its first state, in the order of the chains."""
    found = list(chains)
    shared: dict[str, list[int]] = {}
    for number, chain in enumerate(found):
        shared.setdefault(chain[0], []).append(number)
    ports = [0.0] * len(found)
    for name, numbers in shared.items():
        numbers.sort(key=lambda number: middles[found[number][1]])
        for place, number in enumerate(numbers, 1):
            ports[number] = middles[name] + widths[name] * PORTS * (place / (len(numbers) + 1) - 0.5)
    return ports


def _ways(
    chains: Sequence[Sequence[str]], layer: Mapping[str, int], middles: Mapping[str, float], widths: Mapping[str, float]
) -> dict[Arrow, list[Point]]:
    """The points of each arrow downwards. It has a place of its own on the edge of both states."""
    begins = _ports(chains, middles, widths)
    ends = _ports([chain[::-1] for chain in chains], middles, widths)
    return {
        (chain[0], chain[-1]): [
            (begin, _y(layer[chain[0]]) + NODE_HEIGHT / 2),
            *((middles[bend], _y(row)) for row, bend in enumerate(chain[1:-1], layer[chain[0]] + 1)),
            (end, _y(layer[chain[-1]]) - NODE_HEIGHT / 2),
        ]
        for chain, begin, end in zip(chains, begins, ends, strict=True)
    }


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
