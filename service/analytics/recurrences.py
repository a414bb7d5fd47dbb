"""How often an error came back after its repair was deployed, for verification and for the blueprint (G-111).

An error counts by the case it was grouped into, the environment, and its release: none, the deployed one in any of its
forms, or a later one (G-199). Nothing else that it says is looked at.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from service.eventstore.declare.sqlfiles import load_sql
from statemachines.deploys.releases import Versions, compare, recurs
from statemachines.kernel.readings import ReadFailed

ERRORS_SQL = load_sql("analytics", "recurrences")
LATER_SQL = load_sql("analytics", "later_versions")

MOST_COUNTED: Final = 1_000
LOOKED: Final = 2_000
"""Errors that one read looks at. More than MOST_COUNTED: of a full read, either some do not count or enough do."""
MOST_READS: Final = 32
"""Reads of one count. A case with so many releases in so short a time has names without end."""
MOST_DEPLOYED: Final = 2_000
"""Versions that were deployed after the repair, of which so many are known."""

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Sequence[tuple[Any, ...]] | ReadFailed]]
"""Carries out a read of the project with these values."""


class RepairedCase(NamedTuple):
    """The case that was repaired, and the deploy of the repair: where errors count, and when it was recorded.

    A run without a case has no errors to count.
    """

    case_id: str | None
    deploy_id: str
    version: str
    environment: str
    deployed_at: int


async def count_recurrences(
    ask: Ask, repair: RepairedCase, since: int, until: int, *, by_version: bool = True
) -> int | ReadFailed:
    """Count errors received from `since` to before `until` (epoch seconds): of more than 1,000, so many.

    Without `by_version` a release is compared by equality, as it was for deploys bound before G-199. Releases that do
    not count are left out of the next read, until a read sees all the others. After MOST_READS the recurrences found
    so far are told, and `too_much` where there is none: nobody knows then whether the repair holds.
    """
    values = {"case_id": repair.case_id, "environment": repair.environment, "since": since, "until": until}
    others: list[str] = []
    later: Versions | None = None
    found = 0
    for _ in range(MOST_READS):
        rows = await ask(ERRORS_SQL, {**values, "others": others, "looked": LOOKED})
        if isinstance(rows, ReadFailed):
            return rows
        if later is None and by_version and any(_undecided(release, repair) for release, _ in rows):
            after = {"deployed_at": repair.deployed_at, "deploy_id": repair.deploy_id}
            deploys = await ask(LATER_SQL, {"environment": repair.environment, **after, "looked": MOST_DEPLOYED})
            if isinstance(deploys, ReadFailed):
                return deploys
            later = Versions(version for [version] in deploys)
        found = 0
        for release, count in rows:
            if (
                recurs(release, repair.version, later or Versions(()))
                if by_version
                else release in {None, repair.version}
            ):
                found += count
            else:
                others.append(release)
        if found >= MOST_COUNTED or sum(count for _, count in rows) < LOOKED:
            return min(found, MOST_COUNTED)
    return found or ReadFailed("too_much")


def _undecided(release: str | None, repair: RepairedCase) -> bool:
    """Tell whether the order of deploys has to say if an error counts."""
    return release is not None and compare(release, repair.version) is None
