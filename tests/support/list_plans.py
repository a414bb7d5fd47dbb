"""How many rows the database looks at for a page of each list, with each filter, when there are very many of them.

The plans are those of the service's own statements, run with their values; both kinds of plan for those that are
prepared once: the one for just these values and the one for any.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
from psycopg import sql as syntax

from schemas.kernel.paging import PageQuery
from service.accounts import reads as accounts
from service.cases import listing as cases
from service.cases.listing import CaseFilter
from service.cases.sourcemaps import reads as source_maps
from service.credentials import reads as credentials
from service.deploys import reads as deploys
from service.eventstore.read.pages import END
from service.eventstore.store import EventStore, Row
from service.http.edge.routes import built_endpoints
from service.registry import registry
from service.runs.reads import decided
from service.runs.reads import listed as runs
from service.runs.reads.decided import DecisionFilter

NAMED = re.compile(r"%\((\w+)\)s")
PROJECT, OTHER = "proj_many", "proj_other"
LIMIT = 51
MOST_ROWS = 1_500
"""Rows that a page may look at: some thirty for each that it shows."""
RECENT = 100  # cases that were seen lately
FEW = 5  # rows that a rare value leaves
NEWEST = 1_800_000_000

Read = Callable[[EventStore], Awaitable[Any]]

# `frequent` is what most rows of the one project are and `rare` what only its oldest are; in the other it is the other
# way round, so that what the planner knows of a column is wrong for either.
_KIND = "case when (n > {few}) = (p = 1) then 'frequent' else 'rare' end"
_EACH = "(values (1, '{project}', {rows}), (2, '{other}', {rows} / 4)) t(p, project, most), generate_series(1, most) n"
_TABLES: dict[str, str] = {
    "cases": "insert into cases (project_id, id, revision, case_revision, status, fingerprint, grouping_version, "
    "opened_at) select project, 'case_' || md5(n::text), 1, 1, "
    "case {kind} when 'rare' then 'resolved' else 'open' end, 'f', 1, {newest} - most + n from {each}",
    "case_stats": "insert into case_stats (project_id, id, title, message, level, environment, environments, releases, "
    "unmarked, event_count, users_affected, first_seen_at, last_seen_at) select project, 'case_' || md5(n::text), "
    "{kind} || ' all', 'm', 'error', {kind}, "
    "array[{kind}, 'all'] || case when n < 2000 then array['old'] else '{{}}' end, array[{kind}], "
    "n <> {recent} / 2, 1, 0, 1, "
    "case when (n <= {recent}) then {newest} else {newest} - 40000000 + n end from {each}",
    "deploys": "insert into deploys (project_id, id, revision, version, environment, source, trusted, recorded_at) "
    "select project, 'deploy_' || n, 1, 'v', {kind}, 'ci', true, {newest} - most + n from {each}",
    "source_maps": "insert into source_maps (project_id, id, kind, release, source_url, sha256, size, blob_id, "
    "stored_at) select project, 'map_' || n, 'source_map', {kind}, '~/' || n, 's', 1, 'b', "
    "{newest} - most + n from {each}",
    "trigger_receipts": "insert into trigger_receipts (project_id, id, revision, automation_id, kind, status, "
    "issued_at, expires_at, state) select project, 'rcpt_' || n, 1, {kind}, 'material_case', "
    "case {kind} when 'rare' then 'consumed' else 'closed' end, {newest} - most + n, 0, '{{}}' from {each}",
    # A case has as many as its answer changed; one in seven passed.
    "automation_decisions": "insert into automation_decisions (project_id, id, automation_id, case_id, case_revision, "
    "stage, look, asked_by, code, outcome, policy_sha256, decided_at, inputs, thresholds, checks, material) "
    "select project, 'dec_' || n, {kind}, 'case_' || n / 20, 1, 'issue', 'sweep', 'system', "
    "case when n % 7 = 0 then null else 'materiality_not_met' end, 'o', 'p', {newest} - most + n, '{{}}', '{{}}', "
    "'[]', n % 7 = 0 from {each}",
    "automation_runs": "insert into automation_runs (project_id, id, revision, automation_id, runner_id, receipt_id, "
    "phase, outcome, live, started_at, deadline_at, state) select project, 'run_' || n, 1, {kind}, 'r', 'r', "
    "'stopped', case {kind} when 'rare' then 'failed' else 'cancelled' end, false, {newest} - most + n, 0, '{{}}' "
    "from {each}",
    "approvals": "insert into approvals (project_id, id, revision, run_id, automation_id, status, requested_at, "
    "expires_at, state) select project, 'appr_' || n, 1, 'run_' || case {kind} when 'rare' then 1 else n end, "
    "'a', case {kind} when 'rare' then 'approved' else 'expired' end, {newest} - most + n, 0, '{{}}' from {each}",
    "memberships": "insert into memberships select project, 'mem_' || n, 1, 'usr_' || n, "
    "case {kind} when 'rare' then 'owner' else 'member' end, {newest} - most + n from {each}",
    "credentials": "insert into credentials (project_id, id, revision, name, prefix, kind, scopes, created_by, "
    "created_at, expires_at, secret_hash) select project, 'cred_' || n, 1, 'n', 'p', 'ci_deploy', '{{}}', 'u', "
    "{newest} - most + n, 1, md5(n::text) from {each}",
    "api_keys": "insert into api_keys (project_id, id, revision, key_prefix, key_hash, created_at) "
    "select project, 'key_' || n, 1, 'p', md5(n::text), {newest} - most + n from {each}",
}


def _cases(**wanted: Any) -> Read:
    every = CaseFilter(**{"status": None, "environment": None, "release": None, "since": None, **wanted})
    return lambda store: cases.list_cases(store, PROJECT, every, END, LIMIT)


def _receipts(**wanted: Any) -> Read:
    return lambda store: runs.receipts(store, PROJECT, END, LIMIT, **{"automation_id": None, "status": None, **wanted})


def _decisions(**wanted: Any) -> Read:
    every = DecisionFilter(**{"case_id": None, "automation_id": None, "passed": None, **wanted})
    return lambda store: decided.decisions(store, PROJECT, END, LIMIT, every)


def _runs(**wanted: Any) -> Read:
    return lambda store: runs.runs(store, PROJECT, END, LIMIT, **{"automation_id": None, "status": None, **wanted})


def _approvals(**wanted: Any) -> Read:
    return lambda store: runs.approvals(store, PROJECT, END, LIMIT, **{"run_id": None, "status": None, **wanted})


def _deploys(environment: str | None) -> Read:
    return lambda store: deploys.newest(store, PROJECT, environment, END, LIMIT)


def _source_maps(release: str | None) -> Read:
    return lambda store: source_maps.newest(store, PROJECT, release, END, LIMIT)


@dataclass(frozen=True)
class List:
    """A list: the tables that it reads, and pages of it by the filter that they are filtered by ("" for none)."""

    tables: tuple[str, ...]
    pages: dict[str, list[Read]]


_OF_AUTOMATION = [_receipts(automation_id="rare"), _receipts(automation_id="frequent"), _receipts(automation_id="no")]

LISTS: dict[str, List] = {
    "list_cases": List(
        ("cases", "case_stats"),
        {
            "": [_cases()],
            "status": [_cases(status=status) for status in ("open", "resolved", "ignored")],
            "environment": [_cases(environment=name) for name in ("rare", "frequent", "all", "none")],
            "release": [_cases(release=name) for name in ("rare", "frequent", "none")],
            "since": [_cases(since=since) for since in (NEWEST - 60, 0, NEWEST + 3600)],
            "text": [_cases(text=words) for words in ("rare", "frequent", "all RARE", "none")],
            # Of onboarding proofs alone are a few.
            "trust": [_cases(trust="customer_provider"), _cases(trust="synthetic")],
            "status and more": [
                _cases(status="open", trust="customer_provider"),
                _cases(status="open", trust="customer_provider", text="frequent"),
                _cases(status="open", environment="rare"),
                _cases(status="resolved", environment="frequent"),
                _cases(status="resolved", text="frequent"),
                _cases(environment="rare", release="frequent"),
                _cases(status="open", environment="rare", release="rare", since=NEWEST - 60),
            ],
        },
    ),
    "list_deploys": List(
        ("deploys",), {"": [_deploys(None)], "environment": [_deploys(name) for name in ("rare", "frequent", "none")]}
    ),
    "list_source_maps": List(
        ("source_maps",),
        {"": [_source_maps(None)], "release": [_source_maps(name) for name in ("rare", "frequent", "none")]},
    ),
    "list_automation_trigger_receipts": List(
        ("trigger_receipts",),
        {
            "": [_receipts()],
            "automation_id": _OF_AUTOMATION,
            "status": [_receipts(status=status) for status in ("consumed", "closed", "expired", "invalidated")],
        },
    ),
    "list_automation_decisions": List(
        ("automation_decisions",),
        {
            "": [_decisions()],
            "automation_id": [_decisions(automation_id=name) for name in ("rare", "frequent", "none")],
            "case_id": [_decisions(case_id=name) for name in ("case_7", "case_none")],
            "verdict": [_decisions(passed=passed) for passed in (True, False)],
        },
    ),
    "list_automation_runs": List(
        ("automation_runs",),
        {
            "": [_runs()],
            "automation_id": [_runs(automation_id=name) for name in ("rare", "frequent", "none")],
            "status": [_runs(status=status) for status in ("failed", "cancelled", "succeeded")],
        },
    ),
    "list_automation_approvals": List(
        ("automation_runs", "approvals"),
        {
            "": [_approvals()],
            "run_id": [_approvals(run_id=name) for name in ("run_1", "run_none")],
            "status": [_approvals(status=status) for status in ("approved", "expired", "rejected")],
        },
    ),
    "list_credentials": List(
        ("credentials",), {"": [lambda store: credentials.credentials_of(store, PROJECT, END, LIMIT)]}
    ),
    "list_members": List(("memberships",), {"": [lambda store: accounts.members_page(store, PROJECT, END, LIMIT)]}),
    "list_keys": List(("api_keys",), {"": [lambda store: accounts.keys_of(store, PROJECT, END, LIMIT)]}),
}
UNBOUNDED = {"list_projects"}
"""Reads all memberships of a person to order them by their projects: their number is what one person has made."""


def documented() -> dict[str, set[str]]:
    """The filters of each built list that has pages, by operation."""
    return {
        endpoint.operation.operation_id: {
            field.name for field in msgspec.structs.fields(endpoint.operation.query)
        } - {"limit", "cursor"}
        for endpoint in built_endpoints()
        if isinstance(endpoint.operation.query, type) and issubclass(endpoint.operation.query, PageQuery)
    }  # fmt: skip


def numbered(query: str, places: Sequence[Any], named: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Write a query with the numbers of its values, as the server has it; returns it and the values in this order."""
    if named:
        names = list(dict.fromkeys(NAMED.findall(query)))
        assert set(names) == set(named), f"{set(names) ^ set(named)}"
        return NAMED.sub(lambda found: f"${names.index(found[1]) + 1}", query).replace("%%", "%"), [
            named[name] for name in names
        ]
    numbers = iter(range(1, len(places) + 1))
    return re.sub("%s", lambda _: f"${next(numbers)}", query).replace("%%", "%"), list(places)


class Watched(EventStore):
    """A store that explains each of its reads."""

    def __init__(self, url: str) -> None:
        super().__init__(url, registry())
        self._sql = psycopg.connect(url, autocommit=True)
        self.seen: list[tuple[int, str]] = []  # rows looked at, and the plan

    async def fetch(self, query: str, /, *places: Any, **named: Any) -> list[Row]:
        """Explain a read; either plan may be chosen for a statement that is kept. Of a table nothing is returned."""
        for mode in ("force_custom_plan", "force_generic_plan"):
            self._explain(mode, *numbered(query, places, named))
        return []

    async def fetch_planned(self, query: str, /, *places: Any, **named: Any) -> list[Row]:
        """Explain a read that is planned for its values. What it returns may decide which read comes next."""
        self._explain("force_custom_plan", *numbered(query, places, named))
        return self._sql.execute(query.encode(), named or places).fetchall()

    async def now(self) -> int:
        """Any time will do."""
        return NEWEST

    def _explain(self, mode: str, query: str, params: Sequence[Any]) -> None:
        values = syntax.SQL(", ").join(map(syntax.Literal, params))
        self._sql.execute(f"set plan_cache_mode = {mode}".encode())
        self._sql.execute(f"prepare watched as {query}".encode())
        call = syntax.SQL("execute watched({})").format(values) if params else syntax.SQL("execute watched")
        [(plan,)] = self._sql.execute(
            syntax.SQL("explain (analyze, timing off, costs off, format json) {}").format(call)
        ).fetchall()
        self._sql.execute("deallocate watched")
        self.seen.append((sum(_looked_at(plan[0]["Plan"])), f"{mode}: {list(_scans(plan[0]['Plan']))}"))

    def close(self) -> None:
        """Close the connection that explains."""
        self._sql.close()


def _looked_at(node: dict[str, Any]) -> Iterator[int]:
    """Rows that each scan of a plan looked at, those included that it left out."""
    for inner in node.get("Plans", ()):
        yield from _looked_at(inner)
    if "Scan" in node["Node Type"] and node["Node Type"] != "Subquery Scan":
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        rows += node.get("Rows Removed by Index Recheck", 0)
        yield round(rows * node["Actual Loops"])


def _scans(node: dict[str, Any]) -> Iterator[str]:
    for inner in node.get("Plans", ()):
        yield from _scans(inner)
    if "Scan" in node["Node Type"]:
        where = node.get("Index Name") or node.get("Relation Name", "")
        yield f"{node['Node Type']} {where} {node['Actual Rows']} x {node['Actual Loops']}"


def fill(url: str, table: str, rows: int) -> None:
    """Fill a table with so many rows of one project and a quarter of that of another."""
    kind = _KIND.format(few=FEW)
    each = _EACH.format(project=PROJECT, other=OTHER, rows=rows)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLES[table].format(kind=kind, each=each, newest=NEWEST, recent=RECENT).encode())
        connection.execute(f"vacuum analyze {table}".encode())


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[Watched]:
    """A store whose reads are explained."""
    store = Watched(url)
    await store.reads.start()
    try:
        yield store
    finally:
        await store.reads.stop()
        store.close()


async def check(store: Watched, operation: str) -> list[str]:
    """Read a page by each filter of a list; returns which of them looked at too many rows."""
    wrong = []
    for filtered, pages in LISTS[operation].pages.items():
        for number, page in enumerate(pages):
            store.seen.clear()
            await page(store)
            assert store.seen, f"{operation} by {filtered} read nothing"
            wrong += [
                f"{operation} by {filtered or 'nothing'}, page {number}: {rows} rows looked at, {plan}"
                for rows, plan in store.seen
                if rows > MOST_ROWS
            ]
    return wrong
