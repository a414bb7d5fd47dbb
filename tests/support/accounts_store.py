"""A store with only the accounts: their machines, their read models, and the operator's functions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from msgspec.structs import replace

from projections.accounts import AUDITORS, IDENTITIES, INVITATIONS, KEYS, MEMBERSHIPS, PEOPLE, SESSIONS, SIGN_INS
from projections.credentials import CREDENTIALS
from projections.kernel import AnyProjection
from projections.projects import PROJECTS, PUBLIC_DSNS
from service.accounts import sign_in as sign_in_commands
from service.accounts.sign_in import Codes
from service.auth.authority import carry_out
from service.auth.secrets import SecretKind, make
from service.eventstore.declare.commands import Answer, Command, Origin, Unit
from service.eventstore.state.unit import Registry
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.accounts import identity, invitation, key, membership, person, session, sign_in
from statemachines.accounts.membership import OwnerAdded
from statemachines.credentials import credential as credentials
from statemachines.projects import project
from statemachines.projects.project import ProjectCreated

MACHINES = tuple(
    module.MACHINE for module in (person, identity, key, session, membership, invitation, sign_in, project, credentials)
)
PROJECTIONS: tuple[AnyProjection, ...] = (
    PEOPLE,
    IDENTITIES,
    KEYS,
    SESSIONS,
    MEMBERSHIPS,
    AUDITORS,
    INVITATIONS,
    SIGN_INS,
    PROJECTS,
    PUBLIC_DSNS,
    CREDENTIALS,
)
REGISTRY = Registry(
    {machine.kind: machine for machine in MACHINES},
    {kind: tuple(p for p in PROJECTIONS if kind in p.kinds) for kind in (m.kind for m in MACHINES)},
)


@pytest_asyncio.fixture
async def accounts(database_url: str) -> AsyncIterator[EventStore]:
    """A running store."""
    store = EventStore(database_url, REGISTRY)
    await store.start()
    yield store
    await store.stop()


async def make_project(store: EventStore, owner: str, *, synthetic: bool = False, from_before: bool = False) -> str:
    """Make a project of a person, past the HTTP edge, perhaps one from before public DSNs; returns its id."""
    project_id, secret, public = new_id("proj"), make(SecretKind.DSN), make(SecretKind.PUBLIC_DSN)
    made, joined = project.stream(project_id), membership.stream(project_id, owner)

    def decide(unit: Unit) -> Answer:
        created = ProjectCreated("shop", owner, synthetic, secret.hash, secret.prefix, unit.now)
        if not from_before:
            created = replace(created, public_dsn_hash=public.hash, public_dsn_prefix=public.prefix)
        unit.append(made, [created])
        unit.append(joined, [OwnerAdded(owner, unit.now)])
        return Answer(204, None)

    origin = Origin("system", "test", "make project", new_id("req"))
    await store.execute(Command(origin=origin, decide=decide, streams=[made, joined]))
    return project_id


async def start_sign_in(store: EventStore) -> Codes:
    """Begin a sign-in on a laptop, past the HTTP edge."""
    return await carry_out(store, "test", "start", sign_in_commands.start(store.installation_salt, "laptop"))
