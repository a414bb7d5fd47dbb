"""Project credentials: what authentication looks up and owners list (R-CRED-03). Never a secret."""

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, UseRow, header, projection
from statemachines.credentials.binding import Binding, CiBindingAdded, CiBindingRemoved
from statemachines.credentials.credential import CredentialCreated, CredentialRevoked
from statemachines.credentials.exchanged import KEPT, CiCredentialExchanged
from statemachines.kernel.machine import CiRun, Recorded


class CredentialRow(Row, frozen=True, kw_only=True):
    """A credential, live, expired or revoked; times in epoch seconds."""

    kind: str
    name: str
    scopes: list[str]
    automation_id: str | None
    runner_id: str | None
    secret_hash: str
    prefix: str
    created_by: str
    created_at: int
    expires_at: int
    revoked_at: int | None = None
    revoke_reason: str | None = None

    def active(self, now: int) -> bool:
        """Whether it authenticates at this time (R-CRED-11, R-CRED-12)."""
        return self.revoked_at is None and now < self.expires_at


def fold_credential(row: CredentialRow | None, recorded: Recorded) -> CredentialRow | None:
    """Fold an event of a credential into its row."""
    match recorded.event:
        case CredentialCreated() as event:
            return CredentialRow(
                **header(recorded),
                kind=event.kind,
                name=event.name,
                scopes=event.scopes,
                automation_id=event.automation_id,
                runner_id=event.runner_id,
                secret_hash=event.secret_hash,
                prefix=event.prefix,
                created_by=event.created_by,
                created_at=event.created_at,
                expires_at=event.expires_at,
            )
        case CredentialRevoked(reason, revoked_at) if row:
            return replace(row, revision=recorded.revision, revoked_at=revoked_at, revoke_reason=reason)
    return row


CREDENTIALS = projection("credentials", CredentialRow, ("cred",), fold_credential)
CREDENTIAL_USES = Table("credential_uses", UseRow)


# The bindings of a project, and the credentials that CI has exchanged by them (G-171).


class CiBindingsRow(Row, frozen=True, kw_only=True):
    """The bindings of a project in force, oldest first."""

    bindings: list[Binding]

    def holds(self, binding_id: str) -> bool:
        """Whether a binding is in force."""
        return any(binding.id == binding_id for binding in self.bindings)


class ExchangedCredentialRow(Row, frozen=True, kw_only=True):
    """An exchanged credential. Its binding is that of its run; times in epoch seconds."""

    binding_id: str
    run: CiRun
    scopes: list[str]
    prefix: str
    created_at: int
    expires_at: int


class ExchangedSecretRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fact outside streams: the hash of the secret of an exchanged credential, and when that ends."""

    project_id: str
    id: str
    secret_hash: str
    expires_at: int


def fold_bindings(row: CiBindingsRow | None, recorded: Recorded) -> CiBindingsRow | None:
    """Fold an event of the bindings into their row."""
    match recorded.event:
        case CiBindingAdded() as event:
            added = Binding(event.binding_id, event.name, event.bound, event.added_by, event.added_at)
            return CiBindingsRow(**header(recorded), bindings=[*(row.bindings if row else ()), added])
        case CiBindingRemoved(binding_id) if row:
            left = [binding for binding in row.bindings if binding.id != binding_id]
            return replace(row, revision=recorded.revision, bindings=left)
    return row


def fold_exchanged(row: ExchangedCredentialRow | None, recorded: Recorded) -> ExchangedCredentialRow | None:
    """Fold the exchange into its row."""
    match recorded.event:
        case CiCredentialExchanged() as event:
            return ExchangedCredentialRow(
                **header(recorded),
                binding_id=event.run.binding_id,
                run=event.run,
                scopes=event.scopes,
                prefix=event.prefix,
                created_at=event.exchanged_at,
                expires_at=event.expires_at,
            )
    return row


def exchanged_lasts(row: ExchangedCredentialRow, now: int) -> bool:
    """Whether an exchanged credential is still shown."""
    return now < row.expires_at + KEPT


CI_BINDINGS = projection("ci_bindings", CiBindingsRow, ("cibs",), fold_bindings)
EXCHANGED = projection("exchanged_credentials", ExchangedCredentialRow, ("xcred",), fold_exchanged, exchanged_lasts)
EXCHANGED_SECRETS = Table("exchanged_secrets", ExchangedSecretRow)
