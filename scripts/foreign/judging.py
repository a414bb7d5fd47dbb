"""Cases beside the groups of Sentry's own code: pairs of events, twins, and a report of both. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from scripts.foreign.reference import Reference, joined
from scripts.foreign.twins import KINDS, Twin, twins_among

MOST_KINDS = 10
MOST_EXAMPLES = 3


class Assigned(NamedTuple):
    """The case of an event, None without one, and what that rests on."""

    case: str | None
    rests_on: str


class Disagreement(NamedTuple):
    """A kind of pairs, or of twins, on which the two disagree."""

    joined_by: str
    platform: str
    rests_on: str


class Pairs(NamedTuple):
    """Pairs of events in one case or group: of both, of ours alone, of theirs alone. Examples by kind."""

    both: int
    ours: int
    theirs: int
    kinds: Mapping[Disagreement, Sequence[str]]

    @property
    def precision(self) -> float:
        """The share of our pairs that are theirs too."""
        return self.both / max(1, self.both + self.ours)

    @property
    def recall(self) -> float:
        """The share of their pairs that are ours too."""
        return self.both / max(1, self.both + self.theirs)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.both / max(1, 2 * self.both + self.ours + self.theirs)


class Agreement(NamedTuple):
    """How many twins there are, and on how many of them the two agree. The others by kind."""

    twins: int
    agreed: int
    kinds: Mapping[Disagreement, Sequence[str]]

    @property
    def share(self) -> float:
        """The share of the twins on which the two agree."""
        return self.agreed / max(1, self.twins)


class Judgement(NamedTuple):
    """Both comparisons: of all pairs of events, and of the twins of each kind."""

    pairs: Pairs
    twins: Mapping[str, Agreement]

    @property
    def all_twins(self) -> Agreement:
        """All kinds of twins together, without their examples."""
        return Agreement(
            sum(kind.twins for kind in self.twins.values()), sum(kind.agreed for kind in self.twins.values()), {}
        )


def judge(cases: Mapping[str, Assigned], reference: Reference, platforms: Mapping[str, str]) -> Judgement:
    """Compare the cases of events and twins, by label, with a reference. `platforms`: of each event by its name."""
    kinds: dict[str, list[Twin]] = {kind: [] for kind in KINDS}
    for twin in twins_among(cases, reference.events):
        kinds[twin.kind].append(twin)
    twins = {kind: _judge_twins(listed, cases, reference, platforms) for kind, listed in kinds.items()}
    return Judgement(_judge_pairs(cases, reference, platforms), twins)


def _judge_pairs(cases: Mapping[str, Assigned], reference: Reference, platforms: Mapping[str, str]) -> Pairs:
    """Each pair of events once."""
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    kinds = defaultdict(list)
    for one, other in combinations(reference.events, 2):
        ours = in_one_case(cases[one], cases[other])
        theirs = joined(reference.events[one], reference.events[other])
        counts[ours, theirs] += 1
        if ours != theirs:
            rests_on = " and ".join(sorted({cases[one].rests_on, cases[other].rests_on}))
            platform = " and ".join(sorted({platforms[one], platforms[other]}))
            kinds[Disagreement("us" if ours else "Sentry", platform, rests_on)].append(f"{one} with {other}")
    return Pairs(counts[True, True], counts[True, False], counts[False, True], kinds)


def _judge_twins(
    twins: Sequence[Twin], cases: Mapping[str, Assigned], reference: Reference, platforms: Mapping[str, str]
) -> Agreement:
    """Whether each twin is in the case of what it is compared with exactly when it is in its group."""
    kinds = defaultdict(list)
    for twin in twins:
        ours = in_one_case(cases[twin.before], cases[twin.after])
        if ours != joined(reference.alone[twin.before], reference.alone[twin.after]):
            what = Disagreement("us" if ours else "Sentry", platforms[twin.name], cases[twin.before].rests_on)
            kinds[what].append(twin.name)
    return Agreement(len(twins), len(twins) - sum(map(len, kinds.values())), kinds)


def in_one_case(one: Assigned, other: Assigned) -> bool:
    """Whether two events are in the same case."""
    return one.case is not None and one.case == other.case


def report(judgement: Judgement) -> str:
    """Both comparisons for people, with the largest kinds of disagreement."""
    return "\n".join(_lines(judgement))


def _lines(judgement: Judgement) -> Iterator[str]:
    pairs = judgement.pairs
    yield f"F1 {pairs.f1:.3f}, precision {pairs.precision:.3f}, recall {pairs.recall:.3f}"
    yield f"pairs joined by both {pairs.both}, by us alone {pairs.ours}, by Sentry alone {pairs.theirs}"
    yield from _largest(pairs.kinds)
    for name, agreement in {**judgement.twins, "all": judgement.all_twins}.items():
        yield f"twins, {name}: {agreement.agreed} of {agreement.twins} agree, {agreement.share:.1%}"
        yield from _largest(agreement.kinds)


def _largest(kinds: Mapping[Disagreement, Sequence[str]]) -> Iterator[str]:
    for kind, examples in sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_KINDS]:
        shown = ", ".join(examples[:MOST_EXAMPLES])
        yield f"  {len(examples):4} joined by {kind.joined_by} alone, {kind.platform}, {kind.rests_on}: {shown}"
