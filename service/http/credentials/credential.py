"""Project credentials: made, listed, ended by an owner (R-CRED, G-040, G-041)."""

from __future__ import annotations

from typing import Any

import msgspec

from projections.credentials.credential import CREDENTIAL_USES, CredentialRow
from projections.credentials.credential import PROJECTION as CREDENTIALS
from schemas.credentials.credential import (
    MAX_CREATE_BYTES,
    CreateCredential,
    CredentialCreatedBody,
    CredentialList,
    CredentialMetadata,
    CredentialReplay,
    CredentialRevokedBody,
    RevokeCredential,
)
from service.auth.refusals import InvalidPayload
from service.auth.secrets import SecretKind, make
from service.eventstore.commands import Answer, Lookup, Outcome, StoredAnswer, Unit
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import OWNER, Subject
from service.ids import new_id
from statemachines.credentials import credential
from statemachines.credentials.credential import (
    CI,
    RUNNER,
    CredentialAlreadyCreated,
    CredentialNotFound,
    CredentialWish,
    Minted,
    credential_id,
    decide_create,
    decide_revoke,
)

ENV_VARS = {CI: "SERVICE_CI_API_KEY", RUNNER: "SERVICE_RUNNER_API_KEY"}
_LIST = (
    "select row_to_json(t)::text, u.last_used_at from credentials t left join credential_uses u using (project_id, id) "
    "where t.project_id = %s order by t.created_at desc, t.id desc"
)


@groups.CREDENTIALS.operation(
    method="POST",
    path="/v1/projects/{project_id}/credentials",
    operation_id="create_credential",
    summary="Make a CI or runner credential; its secret is shown once",
    principals=OWNER,
    owner=True,
    max_body=MAX_CREATE_BYTES,
    responses={200: CredentialCreatedBody},
    idempotency="required",
    flows=frozenset({"onboarding", "automation"}),
    errors=("credential_already_created",),
)
async def create_credential(call: Call[CreateCredential, None]) -> Outcome:
    """Make a credential; a repeat is told which one it made and never gets a secret again (R-CRED-09)."""
    wish = _wish(call.body)
    project_id, principal = call.project_id, call.principal
    assert call.key is not None
    assert principal.user_id is not None
    created_by = principal.user_id
    salt = call.services.store.installation_salt
    stream = credential.stream(
        project_id, credential_id(salt, project_id, f"{principal.kind.value}:{principal.id}", call.key)
    )
    secret = make(SecretKind.RUNNER if wish.kind == RUNNER else SecretKind.CI)
    minted = Minted(secret.hash, secret.prefix, new_id("runner") if wish.kind == RUNNER else None)

    def already_created(unit: Unit, *_: StoredAnswer) -> Answer:
        shown = CredentialReplay(**metadata_of(*_rows(unit, project_id, stream.id), unit.now))
        raise CredentialAlreadyCreated(
            "This request has made its credential, and the secret was shown then.",
            next_action="Use the secret that was shown. If it is lost, revoke this credential and create another.",
            credential=msgspec.to_builtins(shown),
        )

    def decide(unit: Unit) -> Answer:
        state = unit.state(stream)
        try:
            events = decide_create(state, wish, minted, unit.now, created_by=created_by, request=call.request_hash)
        except CredentialAlreadyCreated:  # The record of the key has aged out; the credential has not.
            return already_created(unit)
        unit.append(stream, events)
        metadata = metadata_of(*_rows(unit, project_id, stream.id), unit.now)
        body = CredentialCreatedBody(
            **metadata,
            credential=secret.text,
            next_action=f"Put the secret into {metadata['env_var']} where it is used; it is not shown again.",
        )
        return Answer(200, body, stored=CredentialReplay(**metadata))

    return await call.execute(
        decide,
        streams=[stream],
        lookups=[Lookup(CREDENTIAL_USES, project_id, stream.id)],
        on_replay=already_created,
    )


def _wish(body: CreateCredential) -> CredentialWish:
    """Check the rule between the members. Raises InvalidPayload."""
    given = body.automation_id is not msgspec.UNSET
    if given != (body.kind == RUNNER):
        raise InvalidPayload(
            "A runner credential needs an automation_id, and a CI credential takes none.",
            missing=[] if given else ["automation_id"],
            invalid=[("automation_id", "must be absent for ci_deploy")] if given else [],
            schema=msgspec.json.schema(CreateCredential),
        )
    automation_id = body.automation_id if isinstance(body.automation_id, str) else None
    return CredentialWish(body.kind, body.name, automation_id, body.expires_in_seconds)


@groups.CREDENTIALS.operation(
    method="GET",
    path="/v1/projects/{project_id}/credentials",
    operation_id="list_credentials",
    summary="List a project's credentials, without secrets",
    principals=OWNER,
    owner=True,
    responses={200: CredentialList},
)
async def list_credentials(call: Call[None, None]) -> Answer:
    """List all credentials of a project, newest first."""
    store = call.services.store
    await call.services.authenticator.uses.flush()
    now = await store.now()
    items = [
        CredentialMetadata(**metadata_of(msgspec.json.decode(text, type=CredentialRow), used, now))
        for text, used in await store.fetch(_LIST, call.project_id)
    ]
    return Answer(
        200, CredentialList(credentials=items, next_action="Revoke a credential that leaked or is no longer needed.")
    )


@groups.CREDENTIALS.operation(
    method="POST",
    path="/v1/project-credentials/{credential_id}/revoke",
    operation_id="revoke_credential",
    summary="End a project credential",
    principals=OWNER,
    owner=True,
    subject=Subject("credential_id", CREDENTIALS.table, "credential_not_found"),
    responses={200: CredentialRevokedBody},
    idempotency="optional",
    errors=("credential_not_found",),
)
async def revoke_credential(call: Call[RevokeCredential, None]) -> Outcome:
    """End a credential; from the answer on nothing that rests on it commits (R-CRED-11)."""
    project_id = call.project_id
    stream = credential.stream(project_id, call.path["credential_id"])
    reason = call.body.reason if isinstance(call.body.reason, str) else None

    def decide(unit: Unit) -> Answer:
        unit.append(stream, decide_revoke(unit.state(stream), reason, unit.now))
        body = CredentialRevokedBody(
            **metadata_of(*_rows(unit, project_id, stream.id), unit.now),
            next_action="Remove the secret from wherever it was kept.",
        )
        return Answer(200, body)

    outcome = await call.execute(
        decide, streams=[stream], lookups=[Lookup(CREDENTIAL_USES, project_id, stream.id)], fence=True
    )
    call.services.authenticator.forget()
    return outcome


def _rows(unit: Unit, project_id: str, id: str) -> tuple[CredentialRow, int | None]:  # noqa: A002
    """The row as it stands in the unit, and when it was last used. Raises CredentialNotFound after a purge."""
    row, used = unit.row(CREDENTIALS.table, project_id, id), unit.row(CREDENTIAL_USES, project_id, id)
    if row is None:
        raise CredentialNotFound("There is no such credential.")
    return row, used.last_used_at if used else None


def metadata_of(row: CredentialRow, last_used_at: int | None, now: int) -> dict[str, Any]:
    """The members of CredentialMetadata."""
    return {
        "id": row.id,
        "project_id": row.project_id,
        "name": row.name,
        "prefix": row.prefix,
        "created_by": row.created_by,
        "kind": row.kind,
        "scopes": row.scopes,
        "automation_id": row.automation_id,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": last_used_at,
        "revoked_at": row.revoked_at,
        "revoke_reason": row.revoke_reason,
        "active": row.active(now),
        "env_var": ENV_VARS[row.kind],
        "runner_id": row.runner_id,
    }


ENDPOINTS = [create_credential, list_credentials, revoke_credential]
