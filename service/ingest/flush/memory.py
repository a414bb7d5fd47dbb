"""What a flusher remembers from one flush to the next, and what the next one needs by it.

All of it may be out of date: it says what to lock and to read, and what is under the locks is compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from service.eventstore.state.cache import StateCache, StreamName
from service.eventstore.state.loading import Footprint
from service.eventstore.state.unit import Registry
from service.ingest.flush.locking import Project
from service.ingest.flush.newcases import CaseRoom
from service.ingest.queue.items import Item
from statemachines.cases import case
from statemachines.cases import suppression as suppressions
from statemachines.kernel.machine import Stream

MOST_PROJECTS = 10_000  # remembered; with more, all are forgotten and read again
MOST_ROUTES = 10_000  # of merged cases, likewise


def overflow_of(project_id: str, hour: int) -> Stream:
    """The case that takes in what is too new in an hour (G-136)."""
    return case.stream(project_id, case.case_id(project_id, case.overflow_fingerprint(hour)))


def rules_of(project_id: str) -> Stream:
    """The suppressions of a project."""
    return suppressions.stream(project_id)


class FlushPlan(NamedTuple):
    """The locks and reads of a flush, and the cases its records require to be absent."""

    footprint: Footprint
    absent: frozenset[StreamName]


class Memory:
    """States of cases and rules (`cache`), senders' projects, and what the flushes before have lacked.

    `moved` are cases that were only counted but have to change: they are locked to write next. `heavy` streams are
    loaded before the next flush: they are too much for one.
    """

    def __init__(self, registry: Registry) -> None:
        self.cache = StateCache()
        self.projects: dict[str, Project] = {}
        self.moved: set[StreamName] = set()
        self.heavy: dict[StreamName, Stream] = {}
        self._registry = registry
        self._full: dict[str, int] = {}  # projects without room for new cases, and the hour in which that was so
        self._routes: dict[StreamName, str] = {}  # where merged cases lead

    def forget(self) -> None:
        """Start from nothing, after any error."""
        self.cache.clear()
        self.projects.clear()
        self.moved.clear()
        self.heavy = {}
        self._full.clear()
        self._routes.clear()

    def learn_projects(self, project_ids: Iterable[str], found: Mapping[str, Project]) -> None:
        """Keep projects as they were found; one that was not found is forgotten."""
        if len(self.projects) > MOST_PROJECTS:
            self.projects.clear()
        for project_id in project_ids:
            self.projects.pop(project_id, None)
        self.projects.update(found)

    def learn_route(self, name: StreamName, target: str) -> None:
        """Keep where a merged case leads, whose target the flush lacked."""
        if len(self._routes) > MOST_ROUTES:
            self._routes.clear()
        self._routes[name] = target

    def learn_full(self, project_id: str, hour: int) -> None:
        """Keep that a project has no room for new cases in an hour."""
        if len(self._full) > MOST_PROJECTS:
            self._full.clear()
        self._full[project_id] = hour

    def forget_hours_before(self, rooms: Mapping[str, CaseRoom]) -> None:
        """Forget that projects were full in an hour that is over."""
        for project_id, room in rooms.items():
            if self._full.get(project_id, room.hour) != room.hour:
                del self._full[project_id]

    def plan(self, flusher: str, items: Sequence[Item]) -> FlushPlan:
        """The locks and loads for these records, by present knowledge. `flusher` is a name to lock.

        An error whose newest case is known needs no lock on the older ones that nobody has met: that they do not
        exist is looked up in the transaction (G-174).
        """
        writes: dict[StreamName, Stream] = {}
        counted: dict[StreamName, Stream] = {}
        absent: set[StreamName] = set()
        for name, is_older in self._names_of(items):
            if is_older and name not in self.moved and self.cache.get(name) is None:
                absent.add(name)
                continue
            if name in counted or name in writes:
                continue
            known = self.cache.get(name)
            stays = known is not None and name not in self.moved and not case.moves_on_error(known.state)
            (counted if stays else writes)[name] = case.stream(*name)
        reads = []
        for project_id in {project_id for project_id, _ in writes}:
            if project_id in self._full:
                overflow = overflow_of(project_id, self._full[project_id])
                stays = self.cache.get(overflow.name) is not None and overflow.name not in self.moved
                (counted if stays else writes)[overflow.name] = overflow
            rules = rules_of(project_id)
            if self.cache.get(rules.name):
                reads.append(rules)
            else:
                writes[rules.name] = rules
        absent.difference_update(writes)
        reads += [case.stream(*name) for name in absent]
        keyed = {item.key_record: item.key_name for item in items if item.key_record is not None}
        footprint = Footprint(
            self._registry,
            self.cache,
            gates={item.sender.project_id for item in items},
            writes=writes.values(),
            reads=reads,
            names_wanted=[flusher, *keyed.values()],
            records=sorted(keyed),
            counted=counted.values(),
        )
        return FlushPlan(footprint, frozenset(absent))

    def _names_of(self, items: Iterable[Item]) -> Iterator[tuple[StreamName, bool]]:
        """The possible cases of errors: those on offer, and the known targets of these.

        Beside each, whether it is an older one than a case that is known to exist.
        """
        for project_id, offered in dict.fromkeys([(item.sender.project_id, item.offered) for item in items]):
            if not offered:
                continue
            is_older = len(offered) > 1 and self.cache.get((project_id, offered[-1].case_id)) is not None
            for assignment in offered:
                name = (project_id, assignment.case_id)
                yield name, is_older and assignment is not offered[-1]
                known = self.cache.get(name)
                for target in (self._routes.get(name), None if known is None else known.state.merged_into):
                    if target is not None:
                        yield (project_id, target), False
