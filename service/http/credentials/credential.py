"""Project credentials: made, listed, ended by an owner (R-CRED, G-040, G-041)."""

from functools import partial

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from projections.credentials import CREDENTIALS
from schemas import credentials as wire
from schemas.kernel.published import body_schema
from service.auth.refusals import InvalidPayload
from service.credentials import credential as credentials
from service.eventstore.declare.commands import Answer, Outcome, StoredAnswer, Unit
from service.eventstore.read.reader import PageEnd
from service.http.answer.paging import page, start_of
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import OWNER, Subject
from statemachines.credentials.credential import RUNNER, CredentialWish, credential_id

_PATH = "/v1/projects/{project_id}/credentials"


@groups.CREDENTIALS.post(_PATH, "Create a CI or runner credential and receive its secret once")
@Who(OWNER, owner=True, fresh=True)
@Body(max_body=wire.MAX_CREATE_BYTES)
@Fencing(idempotency="required")
@Docs(wire.CredentialCreatedBody, errors=("credential_already_created",), flows=frozenset({"onboarding", "automation"}))
async def create_credential(call: Call, data: JSONBody[wire.CreateCredential]) -> Outcome:
    """Make a credential. A repeat is told the one it made, and never gets a secret again (R-CRED-09)."""
    wish = _wish(data)
    assert call.key is not None, "the operation requires a key"
    caller = f"{call.principal.kind.value}:{call.principal.id}"
    made_id = credential_id(call.services.store.installation_salt, call.project_id, caller, call.key)
    intent = credentials.create(call.project_id, made_id, wish, created_by=call.user_id, request=call.request_hash)
    return await call.carry_out(intent, _created, on_replay=partial(_replayed, call.project_id, made_id))


def _created(made: credentials.NewCredential) -> Answer:
    body = credentials.credential_created(made.standing, made.secret)
    return Answer(200, body, stored=credentials.credential_replay(made.standing))


def _replayed(project_id: str, made_id: str, unit: Unit, _: StoredAnswer) -> Answer:
    credentials.refuse_repeat(unit, project_id, made_id)


def _wish(body: wire.CreateCredential) -> CredentialWish:
    """Check the rule between the members. Raises InvalidPayload."""
    given = body.automation_id is not msgspec.UNSET
    if given != (body.kind == RUNNER):
        raise InvalidPayload(
            "A runner credential needs an automation_id, and a CI credential must not have one.",
            missing=[] if given else ["automation_id"],
            invalid=[("automation_id", "must be absent for ci_deploy")] if given else [],
            schema=body_schema(wire.CreateCredential),
        )
    return CredentialWish(body.kind, body.name, text_of(body.automation_id), body.expires_in_seconds)


@groups.CREDENTIALS.get(_PATH, "List a project's credentials, without secrets")
@Who(OWNER, owner=True)
@Docs(wire.CredentialList)
async def list_credentials(call: Call, params: NamedDependency[wire.CredentialQuery]) -> Answer:
    """List the credentials of a project, newest first: those made by owners, or those exchanged by CI."""
    start, limit = start_of(params), params.limit + 1
    if params.exchanged:
        of_ci = await credentials.exchanged_of(call.services.store, call.project_id, start, limit)
        few, end = page(of_ci, params, lambda standing: PageEnd(standing.row.created_at, standing.row.id))
        return Answer(200, credentials.exchanged_list(few, end))
    await call.services.authenticator.uses.flush()
    found = await credentials.credentials_of(call.services.store, call.project_id, start, limit)
    shown, cursor = page(found, params, lambda standing: PageEnd(standing.row.created_at, standing.row.id))
    return Answer(200, credentials.credential_list(shown, cursor))


@groups.CREDENTIALS.post("/v1/project-credentials/{credential_id}/revoke", "Revoke a project credential")
@Who(OWNER, owner=True, subject=Subject("credential_id", CREDENTIALS, "credential_not_found"))
@Fencing(idempotency="optional")
@Docs(wire.CredentialRevokedBody, errors=("credential_not_found",))
async def revoke_credential(call: Call, data: JSONBody[wire.RevokeCredential], credential_id: FromPath[str]) -> Outcome:
    """End a credential; from the answer on nothing that rests on it commits (R-CRED-11)."""
    intent = credentials.revoke(call.project_id, credential_id, text_of(data.reason))
    outcome = await call.carry_out(intent, lambda ended: Answer(200, credentials.credential_revoked(ended)))
    call.services.authenticator.forget()
    return outcome


ENDPOINTS = [create_credential, list_credentials, revoke_credential]
