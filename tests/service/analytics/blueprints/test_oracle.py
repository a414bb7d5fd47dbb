"""Each blueprint over products at random answers what one loop for each of its cells counts (G-153)."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from service.eventstore.connect.facts import DAY
from tests.service.analytics.blueprints import answers_oracle as oracle
from tests.service.analytics.blueprints.answers_oracle import Product
from tests.service.analytics.blueprints.test_events import cells, three_days
from tests.support import few_or_many
from tests.support.questions import OTHER, PROJECT, Error, Event, Questions
from tests.support.questions import questions as questions  # noqa: PLC0414 (a fixture is found by name)

MOMENTS = st.builds(
    lambda day, second: day * DAY + second, st.integers(0, 2), st.sampled_from([0, 1, 2, 3600, DAY - 1])
)
"""Seconds after the first of three midnights, many of which are the same."""
EVENTS = st.sampled_from("abc")
PEOPLE = st.sampled_from(["ann", "bob", "cid"])
ENVIRONMENTS = st.sampled_from(["production", "staging"])
RECURRING = ("2.0", "shop@2.0.0+7", "v2.1-rc.1", "e4d909c2")
"""The deployed release in two forms, a later one by version, and one by its deploy."""
RELEASES = st.sampled_from(["1.0", "2.0-rc.1", "1.9+2.0", "d41d8cd9", *RECURRING])
CASES = ("c1", "c2", "c3")
VALUES = st.sampled_from(["pro", "free", "7", 7, True, "true", "", None, [1], {"a": 1}, "x" * 205])
SEEN = st.builds(
    Event, EVENTS, PEOPLE, MOMENTS, st.fixed_dictionaries({}, optional={"plan": VALUES, "release": RELEASES})
)
MET = st.builds(
    Error,
    MOMENTS,
    st.none() | RELEASES,
    st.none() | PEOPLE,
    st.sampled_from(CASES),
    ENVIRONMENTS,
    st.sampled_from(["error", "fatal"]),
)


@st.composite
def windows(draw: st.DrawFn) -> tuple[int, int]:
    """Two moments, the second at least a second later."""
    first, second = draw(MOMENTS), draw(MOMENTS)
    return min(first, second), max(first, second) + 1


LINKS: list[dict[str, str]] = [{}, {"ann": "ann", "bob": "ann"}, {"ann": "bob", "bob": "bob", "cid": "bob"}]
"""Whose some names are (G-197): nobody's beside their own, two of one person, all of one."""


def fill(questions: Questions, product: Product, begin: int, deployed_at: int, links: dict[str, str]) -> None:
    """Make a product all that there is of the project; another project has some of its rows, too, and other links."""
    for table in ("analytics_events", "log_events", "case_stats", "cases", "deploys", "person_names"):
        questions.connection.execute(f"delete from {table} where project_id = any(%s)".encode(), ([PROJECT, OTHER],))
    questions.receive(product.events)
    questions.receive(product.events[:5], OTHER)
    questions.meet(product.errors)
    questions.meet(product.errors[:5], OTHER)
    for case, (opened, into) in product.cases.items():
        questions.open_case(case, opened, into)
    questions.deploy("dep_1", "2.0", deployed_at)
    questions.deploy("dep_0", "d41d8cd9", deployed_at)
    questions.deploy("dep_2", "shop@e4d909c2", deployed_at)
    questions.deploy("dep_3", "d41d8cd9", deployed_at + 1, environment="staging")
    questions.deploy("dep_4", "d41d8cd9", deployed_at + 1, OTHER)
    questions.deploy("dep_5", "2.0", begin, OTHER)
    questions.link(links)
    questions.link({"ann": "cid", "cid": "cid"}, OTHER)


def known_as(product: Product, links: dict[str, str]) -> Product:
    """The same product, whose people are called by one name each."""
    return product._replace(
        events=[seen._replace(person=links.get(seen.person, seen.person)) for seen in product.events],
        errors=[met._replace(person=met.person and links.get(met.person, met.person)) for met in product.errors],
    )


class Asked(NamedTuple):
    """A product with its times in seconds after a midnight, and what is asked about it."""

    seen: list[Event]
    met: list[Error]
    opened: dict[str, int]
    merged: bool
    window: tuple[int, int]
    steps: list[str]
    pair: tuple[str, str]
    environment: str | None
    limit: int
    deployed: int
    hours: int
    links: dict[str, str]


ASKED = st.builds(
    Asked,
    st.lists(SEEN, max_size=30),
    st.lists(MET, max_size=20),
    st.fixed_dictionaries(dict.fromkeys(CASES, MOMENTS)),
    st.booleans(),
    windows(),
    st.permutations("abc").flatmap(lambda names: st.sampled_from([names[:2], names])),
    st.tuples(EVENTS, EVENTS),
    st.none() | ENVIRONMENTS,
    st.integers(1, 4),
    MOMENTS,
    st.integers(1, 30),
    st.sampled_from(LINKS),
)


@few_or_many(12, 60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(asked=ASKED)
async def test_every_blueprint_answers_as_the_slow_way_does(questions: Questions, asked: Asked) -> None:
    begin = three_days(questions)
    product = Product(
        [event._replace(at=begin + event.at) for event in asked.seen],
        [error._replace(at=begin + error.at) for error in asked.met],
        {case: (begin + at, "c1" if asked.merged and case == "c2" else None) for case, at in asked.opened.items()},
    )
    at = begin + asked.deployed
    fill(questions, product, begin, at, asked.links)
    product = known_as(product, asked.links)
    since, until = begin + asked.window[0], begin + asked.window[1]
    errors: dict[str, Any] = {} if asked.environment is None else {"environment": asked.environment}
    by_time: list[tuple[str, dict[str, Any], Any]] = [
        ("event-count", {"event": asked.pair[0]}, oracle.event_count),
        ("top-events", {"limit": asked.limit}, oracle.top_events),
        ("active-users", {}, oracle.active_users),
        ("event-trend", {"event": asked.pair[0]}, oracle.event_trend),
        ("ordered-funnel", {"events": asked.steps}, oracle.ordered_funnel),
        ("retention", {"start_event": asked.pair[0], "return_event": asked.pair[1]}, oracle.retention),
        ("breakdown", {"event": asked.pair[0], "property": "plan", "limit": asked.limit}, oracle.breakdown),
        ("top-errors", {**errors, "limit": asked.limit}, oracle.top_errors),
        ("error-free-users", errors, oracle.error_free_users),
        ("errors-by-release", errors, oracle.errors_by_release),
        ("release-comparison", {**errors, "release": "2.0", "base_release": "1.0"}, oracle.release_comparison),
    ]
    for name, params, count in by_time:
        found = await questions.run(name, params, since=since, until=until)
        assert cells(found) == count(product, params, since, until), name
    compared = {"events": asked.steps, "period_days": 1}
    found = await questions.run("ordered-funnel-period-compare", compared, until=until)
    expected = oracle.ordered_funnel_period_compare(product, compared, until - 2 * DAY, until)
    assert cells(found) == expected
    impact = await questions.run("deploy-impact", {"deploy_id": "dep_1", "hours": asked.hours}, at=until - 1)
    edge = max(at, min(at + asked.hours * 3600, until))
    assert cells(impact) == oracle.deploy_impact(product, "production", at - asked.hours * 3600, at, edge)
    again = await questions.run("deploy-recurrence", {"case_id": "c2", "deploy_id": "dep_1"}, at=max(at, until))
    assert cells(again) == oracle.deploy_recurrence(product, "c2", RECURRING, ("production", at), max(at, until))
    questions.delay()
    for name, params, count in by_time:
        found = await questions.run(name, params, since=since, until=until)
        assert cells(found) == count(product, params, since, until), f"{name} of what came late"
