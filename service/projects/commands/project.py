"""Making a project (R-PROJ-01, R-PROJ-02, G-023)."""

from __future__ import annotations

from projections.accounts.person import PROJECTION as PEOPLE
from service.auth.secrets import SecretKind, make
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.ids import new_id
from service.projects.commands.dsn import IssuedDsn, keep_copy, seal_copy
from statemachines.accounts import membership as memberships
from statemachines.accounts.membership import OwnerAdded
from statemachines.projects import project as projects
from statemachines.projects.project import ProjectCreated


def create(user_id: str, name: str, encryption_key: bytes | None) -> Intent[IssuedDsn]:
    """Make a project that a person owns, with both DSNs; that of a test run's person is synthetic."""
    project_id, secret, public = new_id("proj"), make(SecretKind.DSN), make(SecretKind.PUBLIC_DSN)
    project, membership = projects.stream(project_id), memberships.stream(project_id, user_id)
    copy = seal_copy(encryption_key, project_id, secret.text)
    public_copy = seal_copy(encryption_key, project_id, public.text, public=True)

    def decide(unit: Unit) -> IssuedDsn:
        person = unit.row(PEOPLE.table, user_id, user_id)
        assert person is not None, "the authority check has read the caller's row"
        created = ProjectCreated(
            name=name,
            created_by=user_id,
            synthetic=person.synthetic,
            dsn_hash=secret.hash,
            dsn_prefix=secret.prefix,
            created_at=unit.now,
            public_dsn_hash=public.hash,
            public_dsn_prefix=public.prefix,
            accept_public_events=False,
            default_level="info",
        )
        unit.append(project, [created])
        unit.append(membership, [OwnerAdded(user_id, unit.now)])
        keep_copy(unit, project, secret.hash, copy)
        keep_copy(unit, project, public.hash, public_copy, public=True)
        return IssuedDsn(project_id, name, secret.text, secret.prefix, copy is not None, unit.now, public.text)

    return Intent([project, membership], decide, lookups=[Lookup(PEOPLE.table, user_id, user_id)])
