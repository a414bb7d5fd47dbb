"""What the blueprints have to answer, counted the slow way from lists of rows: one loop for each cell (G-153)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.support.questions import Error, Event

DAY = 86400
Row = tuple[Any, ...]


class Product(NamedTuple):
    """All that was received of a product; cases by id with when they were opened and what they were merged into."""

    events: Sequence[Event]
    errors: Sequence[Error]
    cases: Mapping[str, tuple[int, str | None]]

    def within(self, since: int, until: int) -> Product:
        """What of it was received in a period, end excluded."""
        return Product(
            [seen for seen in self.events if since <= seen.at < until],
            [failed for failed in self.errors if since <= failed.at < until],
            self.cases,
        )

    def of(self, environment: str | None) -> list[Error]:
        """Its errors in an environment, or in all."""
        return [failed for failed in self.errors if environment in {None, failed.environment}]


def midnights(since: int, until: int) -> list[int]:
    """The UTC days that a period touches."""
    return sorted({at - at % DAY for at in [*range(since, until, DAY), until - 1]}) if since < until else []


def on(day: int, rows: Iterable[Any]) -> list[Any]:
    """Rows of a day."""
    return [row for row in rows if day <= row.at < day + DAY]


def people(rows: Iterable[Any]) -> int:
    """How many different people rows name."""
    return len({row.person for row in rows if row.person is not None})


def part(of: int, whole: int, times: int = 1) -> float | None:
    """A share, to six decimals; None of nothing."""
    return None if whole == 0 else round(times * of / whole, 6)


def named(event: str, rows: Iterable[Event]) -> list[Event]:
    """Events of a name."""
    return [seen for seen in rows if seen.event == event]


def event_count(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    rows = named(params["event"], product.within(since, until).events)
    return [(len(rows), people(rows))]


def top_events(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    events = product.within(since, until).events
    found = [(event, named(event, events)) for event in {seen.event for seen in events}]
    rows = [(event, len(seen), people(seen), max(row.at for row in seen)) for event, seen in found]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[: params["limit"]]


def active_users(product: Product, _: Mapping[str, Any], since: int, until: int) -> list[Row]:
    events = product.within(since, until).events
    return [(day, people(on(day, events))) for day in midnights(since, until)]


def event_trend(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    rows = named(params["event"], product.within(since, until).events)
    return [(day, len(on(day, rows)), people(on(day, rows))) for day in midnights(since, until)]


def reached(product: Product, steps: Sequence[str], since: int, until: int) -> list[int]:
    """How many people have some choice of events in order up to each step; of one second counts as in order."""
    events = product.within(since, until).events

    def furthest(mine: Sequence[Event], step: int, after: int) -> int:
        if step == len(steps):
            return step
        nexts = {seen.at for seen in mine if seen.event == steps[step] and seen.at >= after}
        return max([step, *(furthest(mine, step + 1, at) for at in nexts)])

    levels = [
        furthest([seen for seen in events if seen.person == person], 0, since)
        for person in {seen.person for seen in events}
    ]
    return [sum(level > place for level in levels) for place in range(len(steps))]


def ordered_funnel(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    came = reached(product, params["events"], since, until)
    return [
        (place + 1, event, came[place], part(came[place], came[0]), before, came[0])
        for place, event in enumerate(params["events"])
        for before in [part(came[place], came[place - 1]) if place else None]
    ]


def ordered_funnel_period_compare(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    middle = (since + until) // 2
    prior = reached(product, params["events"], since, middle)
    current = reached(product, params["events"], middle, until)
    return [
        (place + 1, event, was, now, part(was, prior[0]), part(now, current[0]))
        for place, (event, was, now) in enumerate(zip(params["events"], prior, current, strict=True))
    ]


def retention(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    events = product.within(since, until).events
    days = midnights(since, until)
    found = []
    for day in days:
        cohort = {seen.person for seen in on(day, named(params["start_event"], events))}
        for later in days:
            if later > day:
                back = {seen.person for seen in on(later, named(params["return_event"], events))} & cohort
                found.append((day, len(cohort), later, len(back), part(len(back), len(cohort))))
    return found


def shown(value: Any) -> str | None:
    """A scalar as a text of at most 200 characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[:200] if isinstance(value, str | int | float) else None


def breakdown(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    rows = named(params["event"], product.within(since, until).events)
    values = {shown(seen.properties.get(params["property"])) for seen in rows}
    found = []
    for value in values:
        mine = [seen for seen in rows if shown(seen.properties.get(params["property"])) == value]
        found.append((value, len(mine), people(mine), part(len(mine), len(rows)), len(rows)))
    return sorted(found, key=lambda row: (-row[1], row[0] is None, row[0]))[: params["limit"]]


def top_errors(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    errors = product.within(since, until).of(params.get("environment"))
    family: Callable[[Error], str] = lambda failed: product.cases[failed.case][1] or failed.case  # noqa: E731
    found = [(case, [e for e in errors if family(e) == case]) for case in {family(e) for e in errors}]
    rows = [(case, len(mine), people(mine), max(e.at for e in mine), "local") for case, mine in found]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[: params["limit"]]


def error_free_users(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    part_of = product.within(since, until)
    found = []
    for day in midnights(since, until):
        users = people(on(day, part_of.events))
        met = people(on(day, part_of.of(params.get("environment"))))
        found.append((day, users, met, part(users - met, users) if met <= users else None))
    return found


def errors_by_release(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    errors = product.within(since, until).of(params.get("environment"))
    found = []
    for release in {e.release for e in errors}:
        mine = [e for e in errors if e.release == release]
        times = [e.at for e in mine]
        found.append((release, len(mine), people(mine), min(times), max(times)))
    return sorted(found, key=lambda row: (-row[1], row[0] is None, row[0]))


def release_comparison(product: Product, params: Mapping[str, Any], since: int, until: int) -> list[Row]:
    part_of = product.within(since, until)
    found = []
    for release in (params["release"], params["base_release"]):
        mine = [e for e in part_of.of(params.get("environment")) if e.release == release]
        sample = sum(seen.properties.get("release") == release for seen in part_of.events)
        found.append((release, len(mine), people(mine), sample, part(len(mine), sample, 1000)))
    return found


def deploy_impact(product: Product, environment: str, since: int, deployed_at: int, until: int) -> list[Row]:
    found = []
    for name, begin, end in (("before", since, deployed_at), ("after", deployed_at, until)):
        part_of = product.within(begin, end)
        mine = part_of.of(environment)
        new = {e.case for e in mine if begin <= product.cases[e.case][0] < end}
        events = len(part_of.events)
        found.append((name, len(mine), len(new), events, part(len(mine), events, 1000)))
    return found


def deploy_recurrence(
    product: Product, case: str, releases: Collection[str], deployed: tuple[str, int], as_of: int
) -> list[Row]:
    """`releases` are the deployed one in all forms and the later ones; `deployed` the environment and second of it."""
    environment, at = deployed
    after = product.within(at + 1, as_of + 1)
    mine = [e for e in after.of(environment) if e.case == case and e.release in {None, *releases}]
    return [(len(mine), len(after.events), at, as_of)]
