"""Project credentials: what authentication looks up and owners list (R-CRED-03). Never a secret."""

from msgspec.structs import replace

from projections.kernel import Row, Table, UseRow, header, projection
from statemachines.credentials.credential import CredentialCreated, CredentialRevoked
from statemachines.kernel.machine import Recorded


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
