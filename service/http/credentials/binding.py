"""CI bindings at the edge, and the exchange of a run's token (G-171)."""

import structlog
from litestar.params import FromPath, JSONBody

from schemas import credentials as wire
from schemas.kernel.published import body_schema
from service.auth.ci_tokens import IssuerSilent
from service.auth.oidc import BadToken
from service.auth.refusals import InvalidPayload, ServiceUnavailable
from service.credentials import binding as bindings
from service.eventstore.declare.commands import Answer, Outcome
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import ANYONE, OWNER
from service.services import Services
from service.settingvalues import CI_BINDING
from statemachines.credentials.binding import Binding, Presented, Workflow, permits

log = structlog.get_logger(__name__)

_PATH = "/v1/projects/{project_id}/ci-bindings"


@groups.CREDENTIALS.get(_PATH, "List the CI bindings of a project")
@Who(OWNER, owner=True)
@Docs(wire.CiBindingList, extension=True)
async def list_ci_bindings(call: Call) -> Answer:
    """List the bindings in force, oldest first, with the number of their live credentials."""
    services, project_id = call.services, call.project_id
    row = await bindings.row_of(services.store, project_id)
    live = await bindings.live_by_binding(services.store, project_id)
    shown = bindings.listed(project_id, row, live, services.ci_issuers.accepted, services.settings.base_url)
    return Answer(200, shown, {"etag": shown.etag})


@groups.CREDENTIALS.post(_PATH, "Bind a workflow of a repository to a project")
@Who(OWNER, owner=True, fresh=True)
@Body(max_body=wire.MAX_EXCHANGE_BYTES)
@Fencing(if_match="optional", idempotency="optional")
@Docs({201: wire.CiBindingChanged, 200: wire.CiBindingChanged}, extension=True)
async def add_ci_binding(call: Call, data: JSONBody[wire.AddCiBinding]) -> Outcome:
    """Bind a workflow. One that is bound already is answered with 200, and nothing changes."""
    if data.issuer not in call.services.ci_issuers.accepted:
        raise InvalidPayload(
            "The issuer is not one of this installation.",
            invalid=[("issuer", "must be one of the issuers that the list of bindings names")],
            schema=body_schema(wire.AddCiBinding),
        )
    bound = Workflow(data.issuer, data.repository_id, data.owner_id, data.ref, data.workflow, text_of(data.environment))
    intent = bindings.add(call.project_id, data.name, bound, if_match=call.if_match, by=call.user_id)
    return await call.carry_out(intent, _added)


def _added(made: bindings.ChangedBinding) -> Answer:
    return Answer(201 if made.is_new else 200, bindings.added(made), {"etag": made.etag})


@groups.CREDENTIALS.delete(f"{_PATH}/{{binding_id}}", "Remove a CI binding and end its credentials")
@Who(OWNER, owner=True)
@Fencing(if_match="required", idempotency="optional")
@Docs(wire.CiBindingChanged, errors=("not_found",), extension=True)
async def remove_ci_binding(call: Call, binding_id: FromPath[str]) -> Outcome:
    """Remove a binding. From the answer on, nothing that rests on a credential of it commits."""
    intent = bindings.remove(call.project_id, binding_id, if_match=call.if_match, by=call.user_id)
    outcome = await call.carry_out(intent, lambda ended: Answer(200, bindings.removed(ended), {"etag": ended.etag}))
    call.services.authenticator.forget()
    return outcome


@groups.AUTH.post("/v1/auth/ci/exchange", "Exchange the token of a CI run for a credential of a project")
@Who(ANYONE)
@Body(max_body=wire.MAX_EXCHANGE_BYTES)
@Fencing(rate="ci_exchange")
@Docs(wire.CiTokenExchanged, errors=("unauthenticated", "service_unavailable"), extension=True)
async def exchange_ci_token(call: Call, data: JSONBody[wire.ExchangeCiToken]) -> Outcome:
    """Exchange a token that a bound workflow's issuer has made for this run, once."""
    try:
        binding, shown = await _prove(call.services, data)
    except BadToken as bad:
        log.info("ci_exchange_refused", project_id=data.project_id, reason=str(bad))
        raise bindings.refused() from None
    except IssuerSilent as silent:
        again = "Wait for the seconds in Retry-After, then retry with a new token."
        raise ServiceUnavailable(str(silent), next_action=again, headers={"retry-after": str(silent.again)}) from None
    call.take_token_of(CI_BINDING, binding.id)
    intent = bindings.exchange(data.project_id, binding.id, shown)
    # Nothing of the answer is stored: it holds the secret.
    return await call.carry_out(intent, lambda made: Answer(200, bindings.shown_exchange(made), pending=True))


async def _prove(services: Services, asked: wire.ExchangeCiToken) -> tuple[Binding, Presented]:
    """Find the binding that a token's run has. Raises BadToken and IssuerSilent.

    The issuer is asked for nothing, unless some binding of the project names it.
    """
    issuers = services.ci_issuers
    issuer = issuers.issuer_of(asked.token)
    row = await bindings.row_of(services.store, asked.project_id)
    of_issuer = [binding for binding in (row.bindings if row else ()) if binding.bound.issuer == issuer]
    if not of_issuer:
        raise BadToken("The project has no binding of this issuer.")
    shown = await issuers.verify(asked.token, issuer, services.settings.base_url)
    found = next((binding for binding in of_issuer if permits(binding, shown)), None)
    if found is None:
        raise BadToken("No binding of the project is for this run.")
    return found, shown


ENDPOINTS = [list_ci_bindings, add_ci_binding, remove_ci_binding, exchange_ci_token]
