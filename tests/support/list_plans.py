"""How many rows the database looks at for a page of each list, with each filter, when there are very many of them.

The plans are those of the service's own statements, run with their values; both kinds of plan for those that are
prepared once: the one for just these values and the one for any.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import combinations, product
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from unittest.mock import AsyncMock

import msgspec
import psycopg
from msgspec.structs import FieldInfo
from psycopg import sql as syntax

from schemas.kernel.shape import PageQuery
from service.auth.authority import Principal, PrincipalKind
from service.auth.refusals import Refusal
from service.eventstore.store import EventStore, Row
from service.http.declare.endpoint import Endpoint
from service.http.edge.routes import all_endpoints
from service.registry import registry
from service.sql import Statement

NAMED = re.compile(r"%\((\w+)\)s")
PROJECT, OTHER = "proj_many", "proj_other"
CASE = f"case_{hashlib.md5(b'1', usedforsecurity=False).hexdigest()}"
"""A case of either project, with nearly all errors of the one."""
LIMIT = 51
MOST_ROWS = 1_500
"""Rows that a page may look at: some thirty for each that it shows."""
RECENT = 100  # cases that were seen lately
FEW = 5  # rows that a rare value leaves
NEWEST = 1_800_000_000

# `frequent` is what most rows of the one project are and `rare` what only its oldest are; in the other it is the other
# way round, so that what the planner knows of a column is wrong for either.
_KIND = "case when (n > {few}) = (p = 1) then 'frequent' else 'rare' end"
_EACH = "(values (1, '{project}', {rows}), (2, '{other}', {rows} / 4)) t(p, project, most), generate_series(1, most) n"
_SPECIAL: dict[str, str] = {
    "cases": "insert into cases (project_id, id, revision, case_revision, status, fingerprint, grouping_version, "
    "opened_at) select project, 'case_' || md5(n::text), 1, 1, "
    "case {kind} when 'rare' then 'resolved' else 'open' end, 'f', 1, {newest} - most + n from {each}",
    "case_stats": "insert into case_stats (project_id, id, title, message, culprit, tags, level, environment, "
    "environments, releases, unmarked, event_count, users_affected, first_seen_at, last_seen_at) "
    "select project, 'case_' || md5(n::text), {kind} || ' all', 'm', {kind} || '.py:pay', "
    "array['kind=' || {kind}, 'k=all'], 'error', {kind}, "
    "array[{kind}, 'all'] || case when n < 2000 then array['old'] else '{{}}' end, array[{kind}], "
    "n <> {recent} / 2, 1, 0, 1, "
    "case when (n <= {recent}) then {newest} else {newest} - 40000000 + n end from {each}",
    "case_users": "insert into case_users (project_id, case_id, user_id, error_count, first_seen_at, last_seen_at) "
    "select project, 'case_' || md5(n::text), {kind}, 1, 1, 1 from {each}",
    "log_events": "insert into log_events (project_id, received_at, id, level, message, environment, user_id, tags, "
    "extra, case_id) select project, {newest} - most + n, 'log_' || n, 'error', 'm', {kind}, {kind}, '{{}}', '{{}}', "
    "case {kind} when 'rare' then 'case_none' else '{case}' end from {each}",
    # A case has as many as its answer changed; one in seven passed.
    "automation_decisions": "insert into automation_decisions (project_id, id, automation_id, case_id, case_revision, "
    "stage, look, asked_by, code, outcome, policy_sha256, decided_at, inputs, thresholds, checks, material) "
    "select project, 'dec_' || n, {kind}, 'case_' || n / 20, 1, 'issue', 'sweep', 'system', "
    "case when n % 7 = 0 then null else 'materiality_not_met' end, 'o', 'p', {newest} - most + n, "
    """'{{"case_id": "c", "revision": 1, "status": "open", "trust": "synthetic", "event_count": 1, """
    """"first_seen_at": 1, "last_seen_at": 1}}', '{{}}', '[]', n % 7 = 0 from {each}""",
    "automation_runs": "insert into automation_runs (project_id, id, revision, automation_id, runner_id, receipt_id, "
    "phase, outcome, live, started_at, deadline_at, state) select project, 'run_' || n, 1, {kind}, 'r', 'r', "
    "'stopped', case {kind} when 'rare' then 'failed' else 'cancelled' end, false, {newest} - most + n, 0, "
    """'{{"terms": {{"playbook": {{"id": "error-to-draft-pr", "version": "4.0.0", "template_hash": "{hash}"}}}}}}' """
    "from {each}",
    "approvals": "insert into approvals (project_id, id, revision, run_id, automation_id, status, requested_at, "
    "expires_at, state) select project, 'appr_' || n, 1, 'run_' || case {kind} when 'rare' then 1 else n end, "
    "'a', case {kind} when 'rare' then 'approved' else 'expired' end, {newest} - most + n, 0, '{{}}' from {each}",
    "pull_requests": "insert into pull_requests (project_id, id, revision, repository, pr_number, status, verdict, "
    "run_id, observed_at, state) select project, 'pull_' || n, 1, 'r', n, 'open', "
    "case {kind} when 'rare' then 'ungranted' else 'granted' end, "
    "'run_' || case {kind} when 'rare' then 1 else n end, {newest} - most + n, "
    """'{{"seen": {{"repository": "r", "pr_number": 1, "pr_url": "u", "head_repository": null, "head_branch": "h", """
    """"base_branch": "b", "head_sha": "s", "state": "open", "tree_sha": null, "patch_id": null, """
    """"verdict": "granted", "run_id": null, "credential_id": "c", "seen_at": 1}}}}' from {each}""",
    "sessions": "insert into sessions (project_id, id, revision, status, link_hash, secret_hash, by, created_at, "
    "authenticated_at, expires_at) select project, 'ses_' || n, 1, "
    "case {kind} when 'rare' then 'ended' else 'open' end, '', n::text, 'link', {newest} - most + n, 1, "
    "3000000000 from {each}",
}
"""Rows of tables whose lists depend on more than their filters; those of any other follow from its columns."""
_COLUMNS = (
    "select column_name, data_type, is_nullable = 'NO' and column_default is null "
    "from information_schema.columns join pg_class on oid = table_name::regclass "
    "where table_name = %s and is_generated = 'NEVER' and not relispartition"
)
_ANY = {"bigint": "1", "integer": "1", "boolean": "n % 2 = 0", "jsonb": "'{{}}'", "ARRAY": "'{{}}'", "text": "{kind}"}
"""A value of each type of column."""

_TEXTS: Mapping[str, Sequence[str]] = {
    "run_id": ("run_1", "run_none"),
    "case_id": ("case_7", "case_none", CASE),
    "text": ("rare", "frequent", "all RARE", "none"),
    "tag": ("kind=rare", "kind=frequent", "k=all", "kind=none"),
}
"""What a filter is tried with whose values are other names than `rare`, `frequent`, `all` and `none`."""
BOTH_INDEXES = {
    ("environment", "since"),
    ("environment", "text"),
    ("release", "since"),
    ("release", "text"),
    ("since", "text"),
    *((name, other) for name in ("environment", "release", "since", "text", "tag") for other in ("tag", "path")),
}
"""Filters of which the entries of both indexes are read, and no row that is not shown: 12,000 take two milliseconds,
300,000 some 35."""
WHOLE = {("order", "last_seen"), ("order", "errors"), ("order", "people")}
"""What reads the counters of all cases when another filter leaves few of them. Their callers take turns."""
UNBOUNDED = {"list_projects"}
"""Reads all memberships of a person to order them by their projects: their number is what one person has made."""

ELSEWHERE = {"list_experiments", "list_feature_flags", "list_session_recordings", "list_surveys"}
"""Pages of the provider's, for which no query of ours is made."""


def lists() -> dict[str, Endpoint]:
    """The lists that have pages, by operation."""
    return {
        endpoint.operation.operation_id: endpoint
        for endpoint in all_endpoints()
        if isinstance(endpoint.operation.query, type)
        and issubclass(endpoint.operation.query, PageQuery)
        and endpoint.operation.operation_id not in UNBOUNDED | ELSEWHERE
    }


def values_of(field: FieldInfo) -> Sequence[Any]:
    """What a filter is tried with: every word that it takes, else what is rare, frequent or not there."""
    kinds = [kind for kind in _kinds(field.type) if kind is not NoneType]
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    if words:
        return words
    [kind] = kinds
    if kind is bool:
        return (True, False)
    if kind is int:
        return (NEWEST - 60, 0, NEWEST + 3600)
    assert kind is str, f"{field.name}: say what it is tried with"
    return _TEXTS.get(field.name, ("rare", "frequent", "all", "none"))


def _kinds(kind: Any) -> Iterator[Any]:
    """The members of a union, without what limits them."""
    if get_origin(kind) is Annotated:
        yield from _kinds(get_args(kind)[0])
    elif get_origin(kind) in {Union, UnionType}:
        for one in get_args(kind):
            yield from _kinds(one)
    else:
        yield kind


def query_of(endpoint: Endpoint) -> type[PageQuery]:
    """What a list may be asked for."""
    query = endpoint.operation.query
    assert isinstance(query, type)
    assert issubclass(query, PageQuery)
    return query


def filters_of(endpoint: Endpoint) -> dict[str, Sequence[Any]]:
    """What each filter of a list is tried with."""
    fields = msgspec.structs.fields(query_of(endpoint))
    tried = {field.name: values_of(field) for field in fields if field.name not in {"limit", "cursor"}}
    return {name: [value for value in values if (name, value) not in WHOLE] for name, values in tried.items()}


def pages_of(endpoint: Endpoint) -> list[PageQuery]:
    """The pages of a list that are tried: unfiltered, by each value of each filter, and by values of every two."""
    query, filters = query_of(endpoint), filters_of(endpoint)
    tried: list[dict[str, Any]] = [{}]
    tried += [{name: value} for name, values in filters.items() for value in values]
    for (one, some), (other, others) in combinations(filters.items(), 2):
        if (one, other) in BOTH_INDEXES:
            continue
        tried += [{one: value, other: beside} for value, beside in product(some[:3], others[:3])]
    return [query(**values) for values in tried if values.get("since", 0) <= values.get("until", NEWEST + 3600)]


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
        self.tables: set[str] = set()  # that were looked at

    async def fetch(self, query: Statement, /, *places: Any, **named: Any) -> list[Row]:
        """Explain a read; either plan may be chosen for a statement that is kept. Of a table nothing is returned."""
        for mode in ("force_custom_plan", "force_generic_plan"):
            self._explain(mode, *numbered(str(query), places, named))
        return []

    async def fetch_planned(self, query: Statement, /, *places: Any, **named: Any) -> list[Row]:
        """Explain a read that is planned for its values. What it returns may decide which read comes next."""
        self._explain("force_custom_plan", *numbered(str(query), places, named))
        return self._sql.execute(query, named or places).fetchall()

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
        self.tables |= set(_relations(plan[0]["Plan"]))
        self.seen.append((sum(_looked_at(plan[0]["Plan"])), f"{mode}: {list(_scans(plan[0]['Plan']))}"))

    def close(self) -> None:
        """Close the connection that explains."""
        self._sql.close()


def _looked_at(node: dict[str, Any]) -> Iterator[int]:
    """Rows that each scan of a table looked at, those included that it left out."""
    for inner in node.get("Plans", ()):
        yield from _looked_at(inner)
    if "Scan" in node["Node Type"] and node["Node Type"] not in {"Subquery Scan", "CTE Scan"}:
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        rows += node.get("Rows Removed by Index Recheck", 0)
        yield round(rows * node["Actual Loops"])


def _relations(node: dict[str, Any]) -> Iterator[str]:
    for inner in node.get("Plans", ()):
        yield from _relations(inner)
    if "Relation Name" in node:
        yield node["Relation Name"]


def _scans(node: dict[str, Any]) -> Iterator[str]:
    for inner in node.get("Plans", ()):
        yield from _scans(inner)
    if "Scan" in node["Node Type"]:
        where = node.get("Index Name") or node.get("Relation Name", "")
        yield f"{node['Node Type']} {where} {node['Actual Rows']} x {node['Actual Loops']}"


def rows_of(table: str, columns: Iterable[tuple[str, str, bool]], filters: Mapping[str, Sequence[Any]]) -> str:
    """The statement that fills a table: each column that has to be there, and each that a list is filtered by."""
    values = {}
    for name, kind, needed in columns:
        words = filters.get(name, ())
        if name == "project_id":
            values[name] = "project"
        elif name in {"id", "sent_key"} or (name.endswith("_id") and needed and not words):
            values[name] = "'id_' || n"
        elif name.endswith("_at") and needed:
            values[name] = "{newest} - most + n"
        elif kind == "text" and words and "rare" not in words:
            values[name] = f"case {{kind}} when 'rare' then '{words[0]}' else '{words[-1]}' end"
        elif words or needed:
            values[name] = _ANY[kind]
    return f"insert into {table} ({', '.join(values)}) select {', '.join(values.values())} from {{each}}"


async def _tables(url: str) -> dict[str, dict[str, Sequence[Any]]]:
    """The tables of which the lists read pages, each with what it is filtered by."""
    found: dict[str, dict[str, Sequence[Any]]] = {}
    async with watched(url) as store:
        for endpoint in lists().values():
            store.tables.clear()
            await _look(store, endpoint, query_of(endpoint)())
            for table in store.tables:
                found.setdefault(table, {}).update(filters_of(endpoint))
    return found


async def fill_all(url: str, rows: int) -> None:
    """Fill each table that a list reads with so many rows of one project and a quarter of that of another."""
    values = {
        "kind": _KIND.format(few=FEW),
        "each": _EACH.format(project=PROJECT, other=OTHER, rows=rows),
        "newest": NEWEST,
        "recent": RECENT,
        "case": CASE,
        "hash": "0" * 64,
    }
    with psycopg.connect(url, autocommit=True) as connection:

        def fill(table: str, statement: str) -> None:
            connection.execute(statement.format(**values).encode())
            connection.execute(f"vacuum analyze {table}".encode())

        for table, statement in _SPECIAL.items():
            fill(table, statement)
        for table, filters in (await _tables(url)).items():
            columns = connection.execute(_COLUMNS, (table,)).fetchall()
            if table not in _SPECIAL and {"project_id", "id"} <= {name for name, *_ in columns}:
                fill(table, rows_of(table, columns, filters))


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[EventStore]:
    """A store that reads alone."""
    store = EventStore(url, registry())
    await store.reads.start()
    try:
        yield store
    finally:
        await store.reads.stop()


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


async def _carry_out(_: int, work: Callable[[], Any]) -> Any:
    return work()


async def check(store: Watched, operation: str) -> list[str]:
    """Read pages of a list by its filters; returns which of them looked at too many rows."""
    wrong = []
    endpoint = lists()[operation]
    for page in pages_of(endpoint):
        store.seen.clear()
        await _look(store, endpoint, page)
        most = max((rows for rows, _ in store.seen), default=0)
        assert most or page != type(page)(), f"{operation}: say what its table is filled with"
        wrong += [f"{page}: {rows} rows looked at, {plan}" for rows, plan in store.seen if rows > MOST_ROWS]
    return wrong


async def _look(store: Watched, endpoint: Endpoint, page: PageQuery) -> None:
    services = SimpleNamespace(store=store, authenticator=AsyncMock())
    caller = {"project_id": PROJECT, "user_id": PROJECT, "runner": None, "subject": SimpleNamespace(id=CASE)}
    who = Principal(PrincipalKind.KEY, "key_1", user_id=PROJECT)
    call = SimpleNamespace(services=services, work_on=_carry_out, principal=who, **caller)
    with suppress(Refusal):  # of a case that is not there
        await endpoint.handler(call=call, params=page)
