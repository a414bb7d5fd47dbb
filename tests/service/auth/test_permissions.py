"""Every operation against every caller: the door and the gates say the same (G-025, G-169)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace

import psycopg
import pytest_asyncio

from scripts.golden import kept
from scripts.permissions import PERSON, callers, freshness, in_project
from service.accounts import membership
from service.auth.authenticator import Authenticator
from service.auth.authority import PrincipalKind, authority
from service.auth.refusals import (
    OwnerRequired,
    PrincipalNotAllowed,
    ReauthenticationRequired,
    ScopeMissing,
    Unauthenticated,
)
from service.eventstore.declare.commands import Answer, Command, Origin
from service.eventstore.store import EventStore
from service.http.declare.endpoint import Docs, Group, Operation, Who
from service.http.edge.routes import all_endpoints
from service.ids import new_id
from statemachines.accounts.membership import Role
from statemachines.credentials import credential as credentials
from statemachines.projects.project import ProjectNotFound
from tests.service.auth.test_authenticator import INTERNAL, TEST, bearer, make_credential, rotate
from tests.support.accounts_store import accounts as accounts  # noqa: PLC0414 (a fixture is found by name)
from tests.support.accounts_store import make_project
from tests.support.sessions import open_session

OPERATIONS = [endpoint.operation for endpoint in all_endpoints()]
ROLES = [role.value for role in Role]
OUTSIDER = "outsider"
SECRET = "read_dsn"
"""The one read that shows a raw secret."""


class Callers:
    """A project with one person of each role, its credentials, and somebody who does not belong to it."""

    def __init__(self, store: EventStore, project_id: str, secrets: dict[str, str], sessions: dict[str, str]) -> None:
        self.store = store
        self.project_id = project_id
        self.secrets = secrets
        self.sessions = sessions
        settings = SimpleNamespace(internal_token=INTERNAL, test_token=TEST)
        self.door = Authenticator(settings, store)  # type: ignore[arg-type]

    async def door_says(
        self, operation: Operation, caller: str, *, session: bool = False, inner: bool = False
    ) -> str | None:
        """The code of the refusal at the door; None when it lets the caller in. `session`: with one, not with a key."""
        secrets = self.sessions if session else self.secrets
        try:
            found = await self.door.authenticate(operation, bearer(secrets[caller]), {}, inner=inner)
            if in_project(operation) and found.kind is not PrincipalKind.ANONYMOUS:
                await self.door.admit(found, self.project_id, operation)
        except (
            Unauthenticated,
            PrincipalNotAllowed,
            ScopeMissing,
            OwnerRequired,
            ProjectNotFound,
            ReauthenticationRequired,
        ) as refusal:
            return refusal.code
        return None

    async def gates_say(self, operation: Operation, caller: str, *, session: bool = False) -> str | None:
        """The code of the refusal under the gates, for a caller that the door would have let in."""
        everybody = Operation(
            method="GET",
            path="/",
            operation_id="x",
            summary="x",
            common=Group(name="x"),
            who=Who(frozenset(PrincipalKind) - {PrincipalKind.ANONYMOUS}),
            docs=Docs({}),
        )
        secrets = self.sessions if session else self.secrets
        found = await self.door.authenticate(everybody, bearer(secrets[caller]), {})
        shown = authority(found, self.project_id, operation)
        command = Command(
            origin=Origin("system", "test", "x", new_id("req")),
            decide=lambda _: Answer(204, None),
            streams=[],
            lookups=shown.lookups,
            gates=shown.gates,
            authorize=shown.check,
        )
        try:
            await self.store.execute(command)
        except (OwnerRequired, ProjectNotFound, ReauthenticationRequired) as refusal:
            return refusal.code
        return None


@pytest_asyncio.fixture
async def everyone(accounts: EventStore) -> AsyncIterator[Callers]:
    people = {
        name: await membership.create_key(accounts, membership.email_identity(f"{name}@example.com"))
        for name in [*ROLES, OUTSIDER]
    }
    project_id = await make_project(accounts, people["owner"].user_id)
    for role in (Role.MEMBER, Role.AUDITOR):
        await membership.set_member(accounts, project_id, people[role.value].user_id, role)
    secrets = {name: made.api_key for name, made in people.items()}
    for kind, name in ((credentials.CI, "ci"), (credentials.RUNNER, "runner")):
        _, secrets[name] = await make_credential(accounts, project_id, kind)
    sessions = {name: (await open_session(accounts, made.user_id)).secret for name, made in people.items()}
    secrets["dsn"] = await rotate(accounts, project_id)
    secrets["public_dsn"] = await rotate(accounts, project_id, public=True)
    secrets |= {"internal": INTERNAL, "test": TEST}
    yield Callers(accounts, project_id, secrets, sessions)


def test_the_table_names_each_operation() -> None:
    """The file that says who may do what is complete."""
    assert {line.split(":")[0] for line in kept("permissions")} == {one.operation_id for one in OPERATIONS}
    assert len(kept("permissions")) == len(OPERATIONS)


def test_an_auditor_may_read_and_nothing_else() -> None:
    """The rule itself, against the declarations: every GET of an owner or a member but the raw DSN (G-169)."""
    table = {name: told.split() for name, told in (line.split(":") for line in kept("permissions"))}
    for operation in OPERATIONS:
        if in_project(operation):
            reads = operation.method == "GET" and "owner" in table[operation.operation_id]
            expected = reads and operation.operation_id != SECRET
            assert ("auditor" in table[operation.operation_id]) is expected, operation.operation_id
    assert "auditor" not in table["pause_automation_contract"]
    assert "member" in table["pause_automation_contract"]


async def test_every_caller_is_let_in_where_the_table_says_so(everyone: Callers) -> None:
    """The door, for every operation and every kind of caller."""
    table = {name: told.split() for name, told in (line.split(":") for line in kept("permissions"))}
    for operation in OPERATIONS:
        may = table[operation.operation_id]
        assert may == callers(operation)
        for caller in everyone.secrets:
            refusal = await everyone.door_says(operation, caller)
            person = caller in {*ROLES, OUTSIDER}
            where = f"{caller} at {operation.operation_id}: {refusal}"
            if "anonymous" in may or caller in may or (person and PERSON in may):
                assert refusal is None, where
            elif person and PrincipalKind.KEY in operation.who.principals:
                assert refusal == ("project_not_found" if caller == OUTSIDER else "owner_required"), where
            else:
                assert refusal in {"principal_not_allowed", "scope_missing"}, where


async def test_a_role_of_a_later_release_gives_no_right(everyone: Callers, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as sql:
        sql.execute("update memberships set role = 'reviewer' where role = 'member'")
    for operation in (
        one for one in OPERATIONS if one.operation_id in {"get_project_health", "pause_automation_contract"}
    ):
        assert await everyone.door_says(operation, "member") == "project_not_found"
        assert await everyone.gates_say(operation, "member") == "project_not_found"


async def test_the_gates_refuse_the_same_people(everyone: Callers) -> None:
    """Should the door have been passed a moment before, the second check has the same answer."""
    for operation in OPERATIONS:
        if PrincipalKind.KEY in operation.who.principals and in_project(operation):
            for caller in (*ROLES, OUTSIDER):
                told = await everyone.gates_say(operation, caller)
                assert told == await everyone.door_says(operation, caller), (operation.operation_id, caller)


async def test_a_session_is_a_key_inside_and_nobody_outside(everyone: Callers) -> None:
    """No program and no page of another origin has a use for its secret: it opens nothing of the API by itself."""
    for operation in OPERATIONS:
        public = PrincipalKind.ANONYMOUS in operation.who.principals
        for caller in (*ROLES, OUTSIDER):
            where = (operation.operation_id, caller)
            outside = await everyone.door_says(operation, caller, session=True)
            assert outside == (None if public else "unauthenticated"), where
            inside = await everyone.door_says(operation, caller, session=True, inner=True)
            assert inside == await everyone.door_says(operation, caller), where
            if PrincipalKind.KEY in operation.who.principals and in_project(operation):
                assert await everyone.gates_say(operation, caller, session=True) == inside, where


async def test_a_session_of_an_hour_asks_its_person_to_sign_in_again(everyone: Callers, database_url: str) -> None:
    """At the operations that say so, at the door and under the gates. A key is never asked."""
    with psycopg.connect(database_url, autocommit=True) as sql:
        sql.execute("update service_clock set offset_seconds = offset_seconds + 901")
    for operation in OPERATIONS:
        if PrincipalKind.KEY in operation.who.principals:
            for caller in ROLES:
                where = (operation.operation_id, caller)
                of_key = await everyone.door_says(operation, caller)
                expected = "reauthentication_required" if operation.who.fresh else of_key
                assert await everyone.door_says(operation, caller, session=True, inner=True) == expected, where
                if in_project(operation):
                    told = await everyone.gates_say(operation, caller, session=True)
                    assert told == expected, where


def test_the_table_says_which_operations_need_a_fresh_sign_in() -> None:
    """Whoever stops, cancels, revokes, takes away or reads is not asked: a stop must not wait for a password."""
    told = dict(line.split(": ", 1) for line in kept("freshness"))
    assert told.keys() == {one.operation_id for one in OPERATIONS if PrincipalKind.KEY in one.who.principals}
    assert told == dict(line.split(": ", 1) for line in freshness())
    asked = {name for name, when in told.items() if when != "never"}
    stops = ("pause_", "disable_", "cancel_", "revoke_", "end_", "remove_", "release_", "ignore_", "get_", "list_")
    assert [name for name in asked if name.startswith(stops)] == []
    assert told["decide_automation_approval"] == "when it approves"
    assert told["pause_automation_contract"] == "never"
