"""The rows and payloads of a deleted project or account, removed in small steps that begin anew after every stop.

Nothing here decides: the log says that the scope may go, and from then on nobody writes in it. So whatever is found may
be deleted, in any order and any number of times, with three exceptions. Snapshots go after the payloads that they were
made of, because one may still be written as long as its last event can be read. A rebuild that is under way has read
what is gone by now: it leaves the scope out when it swaps, and the deletion waits for that; one that was killed loses
its half-made table and begins anew. The row of a person stays to the end: it tells who signs in meanwhile to wait.

What an account used is kept for the account when a project goes, so that deleting a project gives no quota back, and
goes with the account. Sign-ins are scoped by themselves: they know a person by the user id alone, and go by time.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import structlog
from psycopg import sql

from projections.accounts import PEOPLE
from projections.deletion import DELETIONS, DeletionRow
from service.copy.batches import may_end
from service.eventstore.connect.connection import WatchedConnection, is_listed
from service.eventstore.declare.commands import alone, leave_room, prepare, replicate
from service.eventstore.schema.migrations import TELEMETRY, partitions_of
from service.registry import read_models
from service.sql import load_query

log = structlog.get_logger(__name__)

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

BATCH = 2_000
"""Rows that one transaction removes: a few milliseconds, so that nobody waits long for a lock or for the disk."""
PAYLOADS = 500
"""Events that one transaction erases, which takes as long."""
BLOCKS = 256
"""Pages of the idempotency records that one transaction looks through."""

FACTS = (
    "case_stats",
    "case_users",
    "case_rates",
    "case_comments",
    "case_runs",
    "case_notes",
    "person_names",
    "telemetry_people",
    "erasure_names",
    "erased_records",
    "event_days",
    "event_name_days",
    "event_key_days",
    "deploy_notes",
    "kinds_not_kept",
    "feedback_reports",
    "dsn_copies",
    "provider_grants",
    "provider_sightings",
    "provider_receipts",
    "provider_looks",
    "provider_uuids",
    "provider_groups",
    "provider_counts",
    "key_uses",
    "session_uses",
    "credential_uses",
    "exchanged_secrets",
    "sign_in_polls",
    "feedback",
    "trigger_evidence",
    "automation_decisions",
    "automation_looks",
    "alert_looks",
    "sweep_turns",
    "idempotency",
    "source_maps",
    "source_map_totals",
    "source_map_blobs",  # before the pieces: what is written meanwhile holds the blob
    "source_map_pieces",
    "upload_chunks",
    "webhook_targets",
    "webhook_standings",
    "webhook_subscriptions",
    "webhook_deliveries",
    "notification_turns",
    "changed_names",  # after the names themselves
    "mail_days",
    "telemetry_erasures",  # of a deletion, under its own id
)
"""Tables outside of the log that hold rows of a scope under its name."""
KEPT = (
    "events",
    "project_positions",
    "stream_heads",
    "snapshots",
    "usage_days",
    "usage_deploys",
    "rebuilds",
    DELETIONS.name,
)
"""Tables with such rows that go another way, or stay: see the module's docstring."""

PHASE = load_query("deletion", "phase")
_SERVER = load_query("deletion", "server")
_DROP_HALVES = load_query("deletion", "drop_halves")
_ERASE = load_query("deletion", "erase")
_OF_ACCOUNT = (("usage_days", "account_id"), ("usage_deploys", "account_id"))
_RECORDS = load_query("deletion", "forget_records")
_NOT_IN = {"project": "^$", "account": "^proj_"}
_JOBS = load_query("deletion", "forget_jobs")
_BLOCKS = load_query("deletion", "blocks_of_records")
_HALF_IS_THERE = load_query("deletion", "half_is_there")
_FORGET_REBUILD = load_query("deletion", "forget_rebuild")
_FORGET_FEEDBACK = load_query("deletion", "forget_feedback")


class Purge:
    """The purge of one scope by one process, which remembers how far it has come.

    `rows` counts what it removed, `payloads` what it erased.
    """

    def __init__(self, row: DeletionRow) -> None:
        self._row = row
        self._server = ""
        self._block = 0
        self._erased_to = ("", 0)
        self.rows = 0
        self.payloads = 0

    async def run(self, conninfo: str, until: float, end: Callable[[], Awaitable[None]]) -> bool:
        """Remove what is there until a moment of the monotonic clock; when nothing is left, `end` the deletion.

        Returns whether it has ended. Whoever purges holds the lock of the deletion from a look at its phase to its end:
        a pass that outlived it would take what somebody makes who has signed in again. Raises psycopg.Error, and what
        `end` raises.
        """
        async with await WatchedConnection.connect(
            conninfo, autocommit=True, application_name="service-purge", connect_timeout=5
        ) as connection:
            await prepare(connection)
            if is_listed(connection):
                await self._begin_anew_elsewhere(connection)
            async with alone(connection, f"deletion:{self._row.id}") as free:
                if not free or not await self._open(connection):
                    return False
                try:
                    if not await self._pass(connection, until) or not await self._left_the_copy(connection):
                        return False
                except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                    return False  # Somebody's statement holds a row; the next pass finds it free.
                await replicate(connection)
                await end()
                return True

    async def _begin_anew_elsewhere(self, connection: Connection) -> None:
        """Forget how far the purge has come on another server. This one may lack some of it (G-201)."""
        [[server]] = await (await connection.execute(_SERVER)).fetchall()
        if server != self._server:
            self._server, self._block, self._erased_to = server, 0, ("", 0)

    async def _left_the_copy(self, connection: Connection) -> bool:
        """Whether the copy of telemetry has nothing of a project any more (G-200). Asked once its records are gone."""
        return self._row.kind != "project" or await may_end(connection, self._row.id, self._row.scope_id)

    async def _open(self, connection: Connection) -> bool:
        """Whether the purge of the deletion has not ended by now."""
        cursor = await connection.execute(PHASE, {"id": self._row.id})
        return await cursor.fetchall() == [("purging",)]

    async def _pass(self, connection: Connection, until: float) -> bool:
        scope = self._row.scope_id
        for table in await _tables(connection):
            if not await self._empty(connection, table, "project_id", scope, until):
                return False
        if self._row.kind == "account":
            for table, column in _OF_ACCOUNT:
                if not await self._empty(connection, table, column, scope, until):
                    return False
        return (
            await self._forget_feedback(connection, until)
            and await self._erase(connection, until)
            and await self._empty(connection, "snapshots", "project_id", scope, until)
            and await self._forget_records(connection, until)
            and await _drop_halves(connection)
        )

    async def _empty(self, connection: Connection, table: str, column: str, scope: str, until: float) -> bool:
        """Delete the rows of a scope from a table, step by step."""
        query = sql.SQL(
            "delete from {table} where ctid = any(array(select ctid from {table} where {column} = %s limit {batch}))"
        ).format(table=sql.Identifier(table), column=sql.Identifier(column), batch=sql.Literal(BATCH))
        while True:
            began = time.monotonic()
            gone = (await connection.execute(query, (scope,))).rowcount
            self.rows += gone
            if gone < BATCH:
                return True
            await leave_room(began)
            if time.monotonic() >= until:
                return False

    async def _forget_feedback(self, connection: Connection, until: float) -> bool:
        """Take the name of a project out of people's feedback, step by step."""
        while True:
            began = time.monotonic()
            values = {"scope": self._row.scope_id, "batch": BATCH}
            gone = (await connection.execute(_FORGET_FEEDBACK, values)).rowcount
            self.rows += gone
            if gone < BATCH:
                return True
            await leave_room(began)
            if time.monotonic() >= until:
                return False

    async def _erase(self, connection: Connection, until: float) -> bool:
        """Erase the payloads of a scope, step by step."""
        while True:
            began = time.monotonic()
            after_stream, after_revision = self._erased_to
            values = {
                "scope": self._row.scope_id,
                "deletion_id": self._row.id,
                "after_stream": after_stream,
                "after_revision": after_revision,
                "most": PAYLOADS,
            }
            [[erased, *last]] = await (await connection.execute(_ERASE, values)).fetchall()
            self.payloads += erased
            if erased < PAYLOADS:
                return True
            self._erased_to = (last[0], last[1])
            await leave_room(began)
            if time.monotonic() >= until:
                return False

    async def _forget_records(self, connection: Connection, until: float) -> bool:
        """Look through everybody's idempotency records, and through the jobs, for those that name the scope."""
        of_scope = {"scope": self._row.scope_id, "not_in": _NOT_IN[self._row.kind]}
        [[blocks]] = await (await connection.execute(_BLOCKS)).fetchall()
        while self._block <= blocks:
            place = {"first": self._block, "after": self._block + BLOCKS}
            found = await connection.execute(_RECORDS, {**of_scope, **place})
            self.rows += found.rowcount
            self._block += BLOCKS
            if time.monotonic() >= until and self._block <= blocks:
                return False
        self.rows += (await connection.execute(_JOBS, {"scope": self._row.scope_id})).rowcount
        return True


async def _tables(connection: Connection) -> list[str]:
    """Every table that holds rows of a scope under its name: telemetry by partition, facts, read models."""
    found = []
    for telemetry in TELEMETRY:
        found += await partitions_of(connection, telemetry)
    models = [name for name in read_models() if name not in {DELETIONS.name, PEOPLE.name}]
    return [*found, *models, *FACTS]


async def _drop_halves(connection: Connection) -> bool:
    """Drop the tables that killed rebuilds have left; false while a rebuild is under way, which swaps without us."""
    for name in read_models():
        for half in (f"{name}_rebuild", f"{name}_old"):
            [[there]] = await (await connection.execute(_HALF_IS_THERE, {"half": half})).fetchall()
            if not there:
                continue
            async with alone(connection, f"rebuild:{name}") as free, connection.transaction():
                if not free:
                    return False
                await connection.execute(_DROP_HALVES, {"read_model": name})
                await connection.execute(_FORGET_REBUILD, {"name": name})
    return True
