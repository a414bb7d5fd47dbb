"""Another's object and nobody's: the same statements, and no row brought back (R-GEN-14).

Ids of cases can be computed by who guesses an error, so nothing but the answer may depend on whether there is one.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx2
import psycopg
import pytest_asyncio
from psycopg.types.json import Jsonb

from service.auth.authority import PrincipalKind
from service.auth.secrets import SecretKind, make
from service.billing.usage import Notices
from service.http.app import create_app
from service.http.declare.endpoint import Operation
from service.http.edge.routes import all_endpoints
from service.process.assembly import make_services
from service.settings import load_settings
from statemachines.credentials.credential import RUNNER
from tests.service.http.edge.toy_api import running
from tests.support import seen
from tests.support.api import Api, World, ok, without_request_id

OPERATIONS = [endpoint.operation for endpoint in all_endpoints() if endpoint.operation.who.subject is not None]
THEIRS, ABSENT = "case_theirs0", "case_nobody0"
FILLED = {"text": "'x'", "bigint": "1", "integer": "1", "boolean": "false", "jsonb": "'{}'", "ARRAY": "'{}'"}


class Asked:
    """The service in this process, what its reads were, and callers of a project of their own."""

    def __init__(self, world: World, services: Any, callers: dict[PrincipalKind, Api]) -> None:
        self.world, self.services, self.callers = world, services, callers
        self.reads: list[tuple[str, int]] = []
        for reader in services.store.reads, services.store.doors:
            reader.fetch = self._recorded(reader.fetch)
            reader.fetch_planned = self._recorded(reader.fetch_planned)

    def _recorded(self, fetch: Any) -> Any:
        async def recorded(query: str | bytes, *params: Any, **how: Any) -> list[Any]:
            rows: list[Any] = await fetch(query, *params, **how)
            self.reads.append((query if isinstance(query, str) else query.decode(), len(rows)))
            return rows

        return recorded

    async def ask(self, operation: Operation, subject_id: str) -> tuple[Any, list[tuple[str, int]]]:
        """The answer without its request id, and the statements with the number of rows that each brought back.

        What finds the credential comes before, and is remembered for a while.
        """
        assert operation.who.subject is not None
        path = operation.path.replace(f"{{{operation.who.subject.path_param}}}", subject_id)
        kind = next(kind for kind in self.callers if kind in operation.who.principals)
        self.reads.clear()
        answer = await self.callers[kind].call(operation.method, path, key="k")
        return without_request_id(answer), [read for read in self.reads if "_hash = %" not in read[0]]


@pytest_asyncio.fixture
async def asked(database_url: str) -> AsyncIterator[Asked]:
    token = "an-internal-token-of-length"
    env = {
        "SERVICE_DATABASE_URL": database_url,
        "SERVICE_INTERNAL_TOKEN": token,
        "SERVICE_ENCRYPTION_KEY": base64.b64encode(bytes(range(32))).decode(),
        "SERVICE_SIGNING_KEY": bytes(range(32)).hex(),
        "SERVICE_RATE_LIMITS": "off",
        "SERVICE_PLANS": "{}",
    }
    services = make_services(load_settings(env))
    edge = create_app(lambda: services)
    transport = httpx2.ASGITransport(edge)
    async with running(edge), seen.async_client("http://here", transport=transport) as client:
        world = World(client, SimpleNamespace(internal_token=token, test_token=None, database_url=database_url))
        person = await world.sign_in()
        mine = await person.create_project()
        callers: dict[PrincipalKind, Api] = {PrincipalKind.KEY: person}
        with psycopg.connect(database_url, autocommit=True) as sql:
            scopes = Jsonb(sorted({op.who.scope for op in OPERATIONS if op.who.scope}))
            for kind, of, name in (
                (PrincipalKind.RUNNER, SecretKind.RUNNER, RUNNER),
                (PrincipalKind.CI, SecretKind.CI, "ci_deploy"),
            ):
                secret = make(of)
                callers[kind] = world.having(secret.text)
                fill(
                    sql,
                    "credentials",
                    project_id=mine["id"],
                    id=f"cred_{kind.value}00",
                    kind=name,
                    scopes=scopes,
                    secret_hash=secret.hash,
                    expires_at=2**40,
                    revoked_at=None,
                )
            for table in {op.who.subject.table.name for op in OPERATIONS if op.who.subject}:
                fill(sql, table, project_id="proj_theirs0", id=THEIRS)
        yield Asked(world, services, callers)


def fill(sql: psycopg.Connection[Any], table: str, **values: Any) -> None:
    """Insert a row with something in every column that needs it."""
    columns = sql.execute(
        "select column_name, data_type from information_schema.columns where table_name = %s and is_nullable = 'NO'",
        (table,),
    ).fetchall()
    rest = {name: FILLED[kind] for name, kind in columns if name not in values}
    places = ", ".join(["%s"] * len(values) + list(rest.values()))
    sql.execute(f"insert into {table} ({', '.join([*values, *rest])}) values ({places})", list(values.values()))


async def test_every_object_reached_by_its_id(asked: Asked) -> None:
    assert {op.who.subject.table.name for op in OPERATIONS if op.who.subject} >= {
        "cases",
        "credentials",
        "automation_runs",
    }
    for operation in OPERATIONS:
        theirs, theirs_read = await asked.ask(operation, THEIRS)
        nobodys, nobodys_read = await asked.ask(operation, ABSENT)
        assert theirs == nobodys, operation.operation_id
        assert theirs[0] == 404
        assert theirs_read == nobodys_read, operation.operation_id
        [(statement, rows)] = theirs_read
        assert operation.who.subject is not None
        assert f"from {operation.who.subject.table.name} t" in statement
        assert rows == 0


async def test_every_project(asked: Asked) -> None:
    """A project of others and none."""
    with psycopg.connect(asked.world.server.database_url, autocommit=True) as sql:
        fill(sql, "projects", project_id="proj_theirs0", id="proj_theirs0", status="active")
    person = asked.callers[PrincipalKind.KEY]
    for path in ("cases", "health", "credentials"):
        seen = []
        for project_id in ("proj_theirs0", "proj_nobody0"):
            asked.reads.clear()
            answer = await person.get(f"/v1/projects/{project_id}/{path}")
            seen.append((without_request_id(answer), list(asked.reads)))
        assert seen[0] == seen[1]
        assert seen[0][0][0] == 404


async def test_what_is_said_of_the_quota_is_read_by_no_request(asked: Asked) -> None:
    """It stands beside the answers of a key whose account is over its quota, from a memory of half a minute (G-072)."""
    person = asked.callers[PrincipalKind.KEY]
    user_id = ok(await person.get("/v1/billing/status"))["user_id"]
    await asked.world.sql(
        "insert into usage_days (project_id, account_id, day, errors, analytics, suppressed, scrubbed, "
        "last_received_at) select 'proj_used0000', %s, "
        "floor(extract(epoch from service_now()) / 86400)::bigint * 86400, 100000, 0, 0, 0, 1",
        user_id,
    )
    asked.services.notices = Notices(asked.services.store, asked.services.settings.terms)  # it has heard of nothing yet
    statements = []
    for _ in range(5):
        asked.reads.clear()
        assert ok(await person.get("/v1/keys"))["billing_notice"]["client_payload"]["kind"] == "quota_over"
        statements.append([query for query, _ in asked.reads])
    assert any("usage_days" in query for query in statements[0])
    assert not any("usage_days" in query or "subscriptions" in query for later in statements[1:] for query in later)
    assert len(statements[1]) < len(statements[0])
