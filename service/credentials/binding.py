"""CI bindings of a project, and the exchange of a run's token for a credential (G-171).

Adding and removing are fences of the project. Once a removal is answered, no command commits by a credential of the
binding: each names its binding, and is proven together with it under the gate.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from projections.credentials import (
    CI_BINDINGS,
    EXCHANGED,
    EXCHANGED_SECRETS,
    CiBindingsRow,
    ExchangedCredentialRow,
    ExchangedSecretRow,
)
from projections.projects import OWNED
from schemas import credentials as wire
from schemas.kernel.shape import shape_from
from service.auth.refusals import Unauthenticated
from service.auth.secrets import SecretKind, make
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.credentials import binding as bindings
from statemachines.credentials import exchanged
from statemachines.credentials.binding import Binding, Presented, Workflow
from statemachines.credentials.credential import CI, SCOPES
from statemachines.credentials.exchanged import TokenUsed

NOT_EXCHANGED = "The token cannot be exchanged for a credential of this project."
ASK_OWNER = "Check project_id, the audience and the age of the token. An owner reads the project's CI bindings."


class ChangedBinding(NamedTuple):
    """A binding as added, found or removed, with the tag of all bindings afterwards."""

    project_id: str
    binding: Binding
    is_new: bool
    etag: str


def add(project_id: str, name: str, bound: Workflow, *, if_match: str | None, by: str) -> Intent[ChangedBinding]:
    """Bind a workflow, if it is not bound yet. `by` is a user id. Refused as decide_add refuses."""
    stream = bindings.stream(project_id)

    def decide(unit: Unit) -> ChangedBinding:
        state = unit.state(stream)
        events = bindings.decide_add(state, name, bound, project_id=project_id, if_match=if_match, by=by, now=unit.now)
        after = unit.append(stream, events)
        found = next(binding for binding in after.bindings if binding.bound == bound)
        return ChangedBinding(project_id, found, bool(events), bindings.make_etag(project_id, after.revision))

    return Intent([stream], decide, fence=True, saves=True)


def remove(project_id: str, binding_id: str, *, if_match: str | None, by: str) -> Intent[ChangedBinding]:
    """Remove a binding, and end what it gave. `by` is a user id. Refused as decide_remove refuses."""
    stream = bindings.stream(project_id)

    def decide(unit: Unit) -> ChangedBinding:
        state = unit.state(stream)
        events = bindings.decide_remove(
            state, binding_id, project_id=project_id, if_match=if_match, by=by, now=unit.now
        )
        after = unit.append(stream, events)
        return ChangedBinding(project_id, state.find(binding_id), False, bindings.make_etag(project_id, after.revision))

    return Intent([stream], decide, fence=True)


class NewExchange(NamedTuple):
    """A new exchanged credential with its secret, shown once."""

    row: ExchangedCredentialRow
    secret: str


def exchange(project_id: str, binding_id: str, shown: Presented) -> Intent[NewExchange]:
    """Exchange the token of a run by its binding, once. Raises Unauthenticated.

    It holds the project's gate, as whatever rests on the credential does later.
    """
    stream, bound = exchanged.stream(project_id, shown.ran.issuer, shown.token_id), bindings.stream(project_id)
    secret = make(SecretKind.CI)

    def decide(unit: Unit) -> NewExchange:
        project, binding = unit.row(OWNED, project_id, project_id), unit.state(bound).find(binding_id)
        if project is None or project.status != "active" or binding is None or not bindings.permits(binding, shown):
            raise refused()
        try:
            events = exchanged.decide_exchange(
                unit.state(stream),
                binding,
                shown,
                scopes=list(SCOPES[CI]),
                prefix=secret.prefix,
                now=unit.now,
            )
        except TokenUsed:
            raise refused() from None
        unit.append(stream, events)
        row = unit.row(EXCHANGED, *stream.name)
        assert row is not None, "what was just exchanged has a row"
        kept = ExchangedSecretRow(project_id=project_id, id=row.id, secret_hash=secret.hash, expires_at=row.expires_at)
        unit.put(stream, EXCHANGED_SECRETS, kept)
        return NewExchange(row, secret.text)

    lookups = [Lookup(OWNED, project_id, project_id)]
    return Intent([stream], decide, reads=[bound], lookups=lookups, gates=[project_id])


def refused() -> Unauthenticated:
    """The one refusal of every exchange."""
    return Unauthenticated(NOT_EXCHANGED, next_action=ASK_OWNER)


# Reads.

_LIVE = load_query("credentials", "live_by_binding")


async def row_of(store: EventStore, project_id: str) -> CiBindingsRow | None:
    """Read the bindings of a project. None without a first one."""
    return await store.get(CI_BINDINGS, *bindings.stream(project_id).name)


async def live_by_binding(store: EventStore, project_id: str) -> Mapping[str, int]:
    """Count the live credentials of each binding."""
    rows = await store.fetch(_LIVE, project_id=project_id, lifetime=exchanged.LIFETIME)
    return dict(rows)


# On the wire.


def listed(
    project_id: str, row: CiBindingsRow | None, live: Mapping[str, int], issuers: Sequence[str], audience: str
) -> wire.CiBindingList:
    """The bindings of a project."""
    found = [] if row is None else row.bindings
    return wire.CiBindingList(
        project_id=project_id,
        bindings=[_shown(binding, live.get(binding.id, 0)) for binding in found],
        count=len(found),
        issuers=list(issuers),
        audience=audience,
        etag=bindings.make_etag(project_id, 0 if row is None else row.revision),
        next_action="Let the jobs of a bound workflow ask their issuer for a token for this audience, and exchange it.",
    )


def added(made: ChangedBinding) -> wire.CiBindingChanged:
    """A binding in force."""
    next_action = "Exchange the token of a run with POST /v1/auth/ci/exchange."
    return wire.CiBindingChanged(
        project_id=made.project_id, binding=_shown(made.binding, 0), etag=made.etag, next_action=next_action
    )


def removed(ended: ChangedBinding) -> wire.CiBindingChanged:
    """A binding as it was removed."""
    next_action = "Nothing to do. The credentials that came by it have ended."
    return wire.CiBindingChanged(
        project_id=ended.project_id, binding=_shown(ended.binding, 0), etag=ended.etag, next_action=next_action
    )


def _shown(binding: Binding, live: int) -> wire.CiBinding:
    return shape_from(
        wire.CiBinding,
        binding.bound,
        id=binding.id,
        name=binding.name,
        created_by=binding.added_by,
        created_at=binding.added_at,
        live_credentials=live,
    )


def shown_exchange(made: NewExchange) -> wire.CiTokenExchanged:
    """A new credential with its secret."""
    row = made.row
    return shape_from(
        wire.CiTokenExchanged,
        row,
        credential=made.secret,
        next_action="Use it within 15 minutes, in this run. It is not shown again.",
    )
