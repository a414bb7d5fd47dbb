"""ClickHouse as the copy uses it: tables, one INSERT for a batch, a look at it, and erasure (G-200).

It is the only module that loads a client of ClickHouse, and it does so at the first connection. One process at a time
writes, so nothing here is safe to use twice at once. A message of the engine may quote rows or the address, so an error
carries its name alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from service.release import missing
from service.settingvalues import CHDB
from service.sql import Query, load_query

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

WINDOW: Final = 10_000
"""Batches whose repeat a table recognises."""
MODULUS: Final = 2**64
INSERT_SECONDS: Final = 120
"""After which the engine gives an INSERT up."""
ANSWER_SECONDS: Final = 300
CONNECT_SECONDS: Final = 5
MEMORY: Final = 2 << 30
"""Bytes that one question may take in the engine."""
MOST_READ: Final = 4_000_000_000
"""Rows that one question may read."""
MOST_RESULTS: Final = 20_000
"""Rows of one answer."""
PREFIX: Final = "service-copy-"
"""Of the ids of our INSERTs."""

_MEASURE = load_query("copy/engine", "measure")
_FORGET_BATCH = load_query("copy/engine", "forget_batch")
_FORGET_AFTER = load_query("copy/engine", "forget_after")
_COUNT_AFTER = load_query("copy/engine", "count_after")
_COUNT_SCOPE = load_query("copy/engine", "count_scope")
_ERASE_SCOPE = load_query("copy/engine", "erase_scope")
_APPLY_MASK = load_query("copy/engine", "apply_mask")
_MASKED = load_query("copy/engine", "masked")
_MAKE_NAMES = load_query("copy/engine", "make_names")
_FORGET_NAMES = load_query("copy/engine", "forget_names")
_COUNT_NAMES = load_query("copy/engine", "count_names")
_FORGET_LINKS = load_query("copy/engine", "forget_links")
_NEWEST_VERSION = load_query("copy/engine", "newest_version")
_TABLES = load_query("copy/engine", "tables")
_BYTES = load_query("copy/engine", "bytes")
_DROP = load_query("copy/engine", "drop")
_CONFINED = load_query("copy/engine", "confined")
_END_INSERTS = load_query("copy/engine", "end_inserts")

_SYNC: Final = {"lightweight_deletes_sync": 2, "mutations_sync": 2}
"""A deletion answers when every replica has carried it out."""


Days = Mapping[str, int]


class CopyFailed(Exception):
    """The copy cannot be read or written now. The message is a word of ours or the engine's name of an error."""


class NoClient(CopyFailed):
    """The extra for ClickHouse is not installed."""


class Measure(NamedTuple):
    """The number of rows, and the sum of their hashes modulo 2^64."""

    rows: int
    digest: int


class CopyScope(NamedTuple):
    """The rows of a project. With names: of its people with these, received up to a second."""

    project_id: str
    names: Sequence[str] | None = None
    until: int = 0


class Shape(NamedTuple):
    """A table of the copy: its columns with their types, and the one that names a person.

    The columns are those of a row without `batch` and `retention_days`, in the order of the reading query.
    """

    table: str
    make: Query
    person: str
    columns: Mapping[str, str]

    @property
    def fields(self) -> str:
        """The parts of the hash of a row, as the engine writes them. Equal to `hash_of`."""
        return ", ".join(_field(name, kind) for name, kind in self.columns.items())


def _field(name: str, kind: str) -> str:
    if kind.startswith("DateTime"):
        return f"concat('v', toString(toUnixTimestamp({name})))"
    if kind == _BY_KEY:
        pairs = f"arrayMap((k, v) -> concat('\\0', k, '\\0', v), mapKeys({name}), mapValues({name}))"
        return f"concat('v', toString(length({name})), arrayStringConcat({pairs}))"
    if kind.startswith("Nullable"):
        return f"ifNull(concat('v', toString({name})), 'n')"
    return f"concat('v', toString({name}))"


_TEXT, _SHORT, _OPTIONAL = "String", "LowCardinality(String)", "Nullable(String)"
_BY_KEY: Final = "Map(String, String)"
"""Of an object: by key each value as PostgreSQL writes it, since no type of ClickHouse has its numbers to the digit."""
_SECONDS, _FLAG, _OPTIONAL_INT = "DateTime('UTC')", "UInt8", "Nullable(Int64)"

SHAPES: Final[Mapping[str, Shape]] = {
    "log_events": Shape(
        "log_events",
        load_query("copy/engine", "make_logs"),
        "user_id",
        {
            "project_id": _TEXT,
            "received_at": _SECONDS,
            "id": _TEXT,
            "level": _SHORT,
            "message": _TEXT,
            "environment": _SHORT,
            "release": _OPTIONAL,
            "user_id": _OPTIONAL,
            "user_data": _OPTIONAL,
            "tags": _BY_KEY,
            "extra": _TEXT,
            "case_id": _OPTIONAL,
            "fingerprint": _OPTIONAL,
            "grouped_by": _OPTIONAL,
            "marker_hash": _OPTIONAL,
            "adjusted": _OPTIONAL,
            "public": _FLAG,
            "occurred_at": _OPTIONAL_INT,
        },
    ),
    "analytics_events": Shape(
        "analytics_events",
        load_query("copy/engine", "make_analytics"),
        "distinct_id",
        {
            "project_id": _TEXT,
            "received_at": _SECONDS,
            "id": _TEXT,
            "event": _TEXT,
            "distinct_id": _TEXT,
            "properties": _BY_KEY,
            "marker_hash": _OPTIONAL,
            "adjusted": _OPTIONAL,
            "public": _FLAG,
            "occurred_at": _OPTIONAL_INT,
        },
    ),
}
"""The tables of the copy by that of PostgreSQL."""
NAMES: Final = "person_names"
"""The table of the names of people, without batches: the row with the greatest version tells whose a name is."""
TABLES: Final = frozenset({*SHAPES, NAMES})
SOME_NAMES: Final = 100
"""Names in one statement: as a value of a place they have a bound."""


def hash_of(row: Iterable[Any]) -> int:
    """Hash a row: the first eight bytes of SHA-256 over its fields. No text of PostgreSQL holds the separator."""
    text = "\0".join("n" if field is None else f"v{_hashed(field)}" for field in row)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _hashed(field: Any) -> Any:
    if field.__class__ is dict:
        return "\0".join([str(len(field)), *(f"{key}\0{value}" for key, value in field.items())])
    return int(field) if field.__class__ is bool else field


def measure_of(rows: Iterable[Sequence[Any]]) -> Measure:
    """Measure rows as the copy measures them."""
    count = total = 0
    for row in rows:
        count += 1
        total += hash_of(row)
    return Measure(count, total % MODULUS)


class Engine:
    """A connection to the copy. Every call raises CopyFailed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        extra = CHDB if parts.scheme == CHDB else "clickhouse"
        if (line := missing(extra)) is not None:
            raise NoClient(f"the extra `{extra}` is not installed. {line}")
        import clickhouse_connect  # noqa: PLC0415 - only who has a copy loads it
        from clickhouse_connect.driver.exceptions import Error  # noqa: PLC0415

        self._failures: tuple[type[Exception], ...] = (Error, OSError)
        if parts.scheme == CHDB:
            options: dict[str, Any] = {"dsn": url}
        else:
            options = {
                "dsn": url,
                "secure": parts.scheme == "https",
                "connect_timeout": CONNECT_SECONDS,
                "send_receive_timeout": ANSWER_SECONDS,
                "autogenerate_session_id": False,
                "form_encode_query_params": True,
            }
        self._client: Client = self._carry_out(clickhouse_connect.get_client, **options)
        self._confined: dict[str, Any] | None = None

    def close(self) -> None:
        """Let go of it."""
        self._carry_out(self._client.close)

    def version(self) -> str:
        """The engine's version."""
        return str(self._client.server_version)

    # -- tables ------------------------------------------------------------------------------------------------------

    def tables(self) -> set[str]:
        """Name our present tables."""
        return {str(name) for (name,) in self._ask(_TABLES)}

    def make_tables(self) -> None:
        """Make the missing tables."""
        for shape in SHAPES.values():
            self._run(shape.make.filled(window=WINDOW))
        self._run(_MAKE_NAMES)

    def drop_tables(self) -> None:
        """Drop our tables with their rows."""
        for table in TABLES:
            self._run(_DROP.filled(table=table))

    def bytes(self) -> int:
        """How many bytes our tables take."""
        [[size]] = self._ask(_BYTES)
        return int(size)

    # -- questions ---------------------------------------------------------------------------------------------------

    def read(
        self, text: str, values: Mapping[str, Any], seconds: float
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Answer a statement that only reads, within its limits. Returns the names of its columns, and its rows.

        It may be used by several threads at once where the copy is reached over HTTP.
        """
        if self._confined is None:
            # Whoever is confined by the server may not confine itself further.
            [[confined]] = self._ask(_CONFINED)
            self._confined = {} if int(confined) else {"readonly": 1}
        settings = {
            **self._confined,
            "max_execution_time": max(round(seconds, 1), 0.1),
            "max_memory_usage": MEMORY,
            "max_rows_to_read": MOST_READ,
            "max_result_rows": MOST_RESULTS,
            "result_overflow_mode": "throw",
        }
        found = self._carry_out(self._client.query, text, parameters=dict(values), settings=settings)
        return found.column_names, found.result_rows

    # -- batches -----------------------------------------------------------------------------------------------------

    def end_inserts(self) -> None:
        """End the INSERTs of a former worker, and wait for their end."""
        if self._client.uri.startswith(CHDB):
            return  # They ended with its process.
        self._run(_END_INSERTS, {"prefix": PREFIX})

    def insert(self, table: str, batch: int, token: str, rows: Sequence[Sequence[Any]], days: Days) -> None:
        """Insert the rows of a batch by one INSERT. A repeat with this token is not stored again.

        `days` is how long the rows of each project are kept.
        """
        shape = SHAPES[table]
        columns = [*map(list, zip(*rows, strict=True))]
        names = ["batch", *shape.columns, "retention_days"]
        kinds = ["UInt64", *shape.columns.values(), "UInt16"]
        settings = {
            "insert_deduplicate": 1,
            "insert_deduplication_token": token,
            "async_insert": 0,
            "max_insert_block_size": max(len(rows), 1),
            "max_execution_time": INSERT_SECONDS,
            "query_id": f"{PREFIX}{token}",
        }
        self._carry_out(
            self._client.insert,
            table,
            [[batch] * len(rows), *columns, [days[project_id] for project_id in columns[0]]],
            names,
            column_type_names=kinds,
            column_oriented=True,
            settings=settings,
        )

    def measure(self, table: str, batch: int, since: int, until: int) -> Measure:
        """Measure a batch in the copy, received within these seconds, both included."""
        query = _MEASURE.filled(table=table)
        [[rows, digest]] = self._ask(self._hashed(table, query), {"batch": batch, "since": since, "until": until})
        return Measure(int(rows), int(digest))

    def forget_batch(self, table: str, batch: int, since: int, until: int) -> None:
        """Delete a batch."""
        self._run(_FORGET_BATCH.filled(table=table), {"batch": batch, "since": since, "until": until}, _SYNC)

    def count_after(self, table: str, batch: int) -> int:
        """Count the rows of batches after a number. The first batch has number 1."""
        [[count]] = self._ask(_COUNT_AFTER.filled(table=table), {"batch": batch})
        return int(count)

    def forget_after(self, table: str, batch: int) -> int:
        """Delete the batches after a number. Returns how many rows they had."""
        count = self.count_after(table, batch)
        if count:
            self._run(_FORGET_AFTER.filled(table=table), {"batch": batch}, _SYNC)
        return count

    # -- names of people ---------------------------------------------------------------------------------------------

    def link(self, names: Sequence[tuple[str, str, str]], version: int) -> None:
        """Store whose names are: project, name and person. A later version wins, so a repeat changes nothing."""
        rows = [[*one, version] for one in names]
        columns = ["project_id", "name", "person", "version"]
        self._carry_out(self._client.insert, NAMES, rows, columns, settings={"async_insert": 0})

    def forget_names(self, project_id: str, names: Sequence[str]) -> None:
        """Delete names of a project that are nobody's any more."""
        for at in range(0, len(names), SOME_NAMES):
            some = {"project": project_id, "names": list(names[at : at + SOME_NAMES])}
            self._run(_FORGET_NAMES, some, _SYNC)

    def count_names(self, project_id: str) -> int:
        """Count the rows about names of a project."""
        [[count]] = self._ask(_COUNT_NAMES, {"project": project_id})
        return int(count)

    def empty_names(self) -> None:
        """Delete the names of all projects."""
        self._run(_DROP.filled(table=NAMES))
        self._run(_MAKE_NAMES)

    def forget_links(self, project_id: str) -> None:
        """Delete all names of a project."""
        self._run(_FORGET_LINKS, {"project": project_id}, _SYNC)

    def newest_version(self) -> int:
        """The greatest version of a name. 0 without any."""
        [[version]] = self._ask(_NEWEST_VERSION)
        return int(version)

    # -- erasure -----------------------------------------------------------------------------------------------------

    def count_scope(self, table: str, scope: CopyScope) -> dict[int, Measure]:
        """Measure a scope in a table, by the number of the batch."""
        query = _COUNT_SCOPE.filled(table=table, name=SHAPES[table].person)
        found = self._ask(self._hashed(table, query), _values(scope))
        return {int(batch): Measure(int(rows), int(digest)) for batch, rows, digest in found}

    def erase_scope(self, table: str, scope: CopyScope) -> None:
        """Delete the rows of a scope from a table. They are on the disk until `apply_masks`."""
        self._run(_ERASE_SCOPE.filled(table=table, name=SHAPES[table].person), _values(scope), _SYNC)

    def apply_masks(self) -> int:
        """Take deleted rows off the disk. Returns how many parts still hold some."""
        [[masked]] = self._ask(_MASKED)
        if masked:
            for table in TABLES:
                self._run(_APPLY_MASK.filled(table=table), None, _SYNC)
            [[masked]] = self._ask(_MASKED)
        return int(masked)

    # -- statements --------------------------------------------------------------------------------------------------

    def _hashed(self, table: str, query: Query) -> str:
        return query.text.replace("{fields}", SHAPES[table].fields)

    def _ask(self, query: Query | str, values: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        text = query if isinstance(query, str) else query.text
        rows: Sequence[Sequence[Any]] = self._carry_out(self._client.query, text, parameters=values).result_rows
        return rows

    def _run(self, query: Query, values: Mapping[str, Any] | None = None, settings: Any = None) -> None:
        self._carry_out(self._client.command, query.text, parameters=values, settings=settings)

    def _carry_out(self, call: Any, *args: Any, **more: Any) -> Any:
        try:
            return call(*args, **more)
        except self._failures as error:
            name, code = getattr(error, "name", None), getattr(error, "code", None)
            raise CopyFailed(str(name or (f"error {code}" if code else type(error).__name__))) from None


def _values(scope: CopyScope) -> dict[str, Any]:
    return {
        "project": scope.project_id,
        "personal": scope.names is not None,
        "names": list(scope.names or ()),
        "until": scope.until,
    }
