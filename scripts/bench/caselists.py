"""The row of the list of cases: pages by every filter, in a project that has very many.

`python -m scripts.bench.caselists --share 0.1` runs it by itself at a tenth of the promised size.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from statistics import quantiles
from typing import NamedTuple

import psycopg
from rich.console import Console

from scripts.bench.figures import Figures, console
from scripts.load import worlds

# The bench of the list of cases: pages by every filter, and cases in full, in a project that has very many.

CASES, EVENTS = 100_000, 5_000_000
PROMISED = 30.0  # milliseconds, 95 of 100 pages
PROMISED_ORDERED = 40.0  # of an order by counters alone, which an index has
PROMISED_FILTERED = 200.0  # of such an order beside a filter, for which the counters of all cases may be looked at
PAGES = 60  # of each sort
LOUD = f"case_{hashlib.md5(b'1', usedforsecurity=False).hexdigest()}"
"""The case that may have more errors than any other."""

_CASES = """
insert into cases (project_id, id, revision, case_revision, status, fingerprint, grouping_version, opened_at)
select %(project)s, 'case_' || md5(n::text), 1, 1, case when n %% 10 = 0 then 'resolved' when n %% 13 = 0 then 'ignored'
    else 'open' end, md5('f' || n), 1, %(now)s - 90 * 86400 + n * 7700000 / %(cases)s
from generate_series(1::bigint, %(cases)s) n
"""
# A few cases have very many errors, and very many have a few, as their rank among them says.
_STATS = """
insert into case_stats (project_id, id, title, message, level, environment, release, environments, releases, unmarked,
    event_count, users_affected, first_seen_at, last_seen_at)
select %(project)s, 'case_' || md5(n::text), 'Error ' || md5(n::text) || ' of part ' || n %% 97, 'm', 'error',
    'production', 'r' || n %% 50, array['production'] || case when n %% 20 = 0 then array['staging'] else '{}' end,
    array['r' || n %% 50], n %% 500 <> 0, 1 + %(events)s::bigint / (12 * n), n %% 40, %(now)s - 90 * 86400,
    %(now)s - (n * 7919 %% (90 * 86400))
from generate_series(1::bigint, %(cases)s) n
"""
# Ids as the intake makes them, in case a single error is read: digits of their time come first.
_TIME_DIGITS = " || ".join(
    f"substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (at * 1000 >> {shift} & 31)::int, 1)"
    for shift in range(45, -5, -5)
)
_EVENTS = f"""
insert into log_events (project_id, received_at, id, level, message, environment, release, user_id, tags, extra,
    case_id, fingerprint)
select %(project)s, at, 'log_' || {_TIME_DIGITS} || lpad(n::text, 16, '0'), 'error', 'm', 'production', 'r1',
    'u' || n %% 5000, '{{}}', '{{}}', 'case_' || md5(of::text), md5('f' || of)
from generate_series(1::bigint, %(events)s) n cross join lateral (select
    %(now)s - n * 60 * 86400 / %(events)s as at,
    case when n %% 100 < %(loud)s then 1 else 1 + n %% %(cases)s end as of) error
"""
_LATEST = """
update case_stats s set last_seen_at = (select max(received_at) from log_events e
    where e.project_id = s.project_id and e.case_id = s.id)
where s.project_id = %(project)s and s.id = %(loudest)s
"""
_DAYS = """
select ensure_partition(telemetry => 'log_events', day => (%(now)s / 86400 - d) * 86400) from generate_series(0, 61) d
"""
FILTERS = (
    "",
    "status=all",
    "status=resolved",
    "environment=staging",
    "environment=staging&status=all",
    "release=r7",
    "text=part+13",
    "text=error",
    "trust=synthetic",
    "order=last_seen",
    "order=errors",
    "order=people",
    "order=errors&text=part+13",
    "order=people&text=error&status=all",
    "order=last_seen&release=r7",
    "order=errors&environment=production",
)


class Timed(NamedTuple):
    """How long pages of one sort took, in milliseconds: 95 of 100 at most, and the slowest."""

    name: str
    p95: float
    most: float

    @property
    def promised(self) -> float:
        """How long 95 of 100 pages may take at most."""
        if "order=" not in self.name:
            return PROMISED
        return PROMISED_FILTERED if "&" in self.name else PROMISED_ORDERED


def fill(world: worlds.World, project_id: str, cases: int, events: int, *, loud: int = 0) -> None:
    """Generate cases with their counters and errors, as if they had come within three months.

    Of all errors, `loud` of a hundred are of LOUD.
    """
    values = {"project": project_id, "cases": cases, "events": events, "now": int(time.time())}
    values |= {"loud": loud, "loudest": LOUD}
    with psycopg.connect(world.database_url, autocommit=True) as connection:
        for statement in (_DAYS, _CASES, _STATS, _EVENTS, _LATEST):
            connection.execute(statement.encode(), values)
        connection.execute("vacuum analyze cases, case_stats, log_events")


def measure(world: worlds.World, share: float) -> list[Timed]:
    """Read pages one after the other, each sort from its first page on, and cases in full."""
    project_id = world.create_project("lists")["id"]
    fill(world, project_id, int(CASES * share), int(EVENTS * share))
    since = int(time.time()) - 86400
    path = f"/v1/projects/{project_id}/cases"
    found = [_pages(world, path, name) for name in (*FILTERS, f"since={since}")]
    ids = [case["id"] for case in world.call("GET", path, None, world.owner_key)["cases"]]
    record = [_timed(world, f"/v1/cases/{case_id}") for case_id in ids]
    users = [_timed(world, f"/v1/cases/{case_id}/users") for case_id in ids]
    return [*found, _summed("a case in full", record), _summed("users of a case", users)]


def _pages(world: worlds.World, path: str, name: str) -> Timed:
    times, cursor = [], ""
    for _ in range(PAGES):
        query = "&".join(part for part in (name, cursor and f"cursor={cursor}") if part)
        began = time.perf_counter()
        answer = world.call("GET", f"{path}?{query}", None, world.owner_key)
        times.append(1000 * (time.perf_counter() - began))
        cursor = answer["next_cursor"] or ""
    return _summed(name or "the newest open ones", times)


def _timed(world: worlds.World, path: str) -> float:
    began = time.perf_counter()
    world.call("GET", path, None, world.owner_key)
    return 1000 * (time.perf_counter() - began)


def _summed(name: str, times: list[float]) -> Timed:
    return Timed(name, quantiles(times, n=20)[-1], max(times))


def main() -> int:
    """Measure it alone; exits 1 when a sort of pages takes longer than promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the promised number of cases and errors")
    arguments = parser.parse_args()
    console = Console(width=118)
    with worlds.World() as world:
        world.use_database("caselists")
        with world.api():
            found = measure(world, arguments.share)
    for timed in found:
        console.print(f"  {timed.name}: p95 {timed.p95:.1f} ms, most {timed.most:.1f} ms")
    console.print(json.dumps({timed.name: round(timed.p95, 1) for timed in found}))
    return 1 if any(timed.p95 > timed.promised for timed in found) else 0


def measure_lists(figures: Figures, world: worlds.World, share: float) -> None:
    """Read pages of the list of cases by each of its filters, in a project with very many cases and errors."""
    found = measure(world, share)
    for timed in found:
        console.print(f"  {timed.name}: p95 {timed.p95:.1f} ms, most {timed.most:.1f} ms")
    size = f"{int(CASES * share):,} cases and {int(EVENTS * share):,} errors"
    for promised in (PROMISED, PROMISED_ORDERED, PROMISED_FILTERED):
        slowest = max((timed for timed in found if timed.promised == promised), key=lambda timed: timed.p95)
        name = f"p95 of a page of {size} ({slowest.name})"
        figures.add(name, slowest.p95, "ms", yardstick=promised, promised=1, most=True)


if __name__ == "__main__":
    sys.exit(main())
