"""A project's team at the provider, and its session replay, at the edge (R-PROJ-14, R-PRV-01, G-094, G-165)."""

from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal
from http import HTTPStatus

from litestar.params import JSONBody

from projections.provider import TeamRow
from schemas.provider import ConfigureReplay, ProvisionTeam, ReplayConfigured, ReplayStanding, TeamProvisioned
from service.analytics.queries import QueriesBusy
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.http.edge.reading import stored_answer
from service.http.provider.attempting import begin
from service.provider import sources, team
from service.provider.operator import NoTeam, provide_team
from statemachines.kernel.machine import ReadFailed
from statemachines.provider import ATTEMPT_SECONDS, ReplaySettings

PATH = "/v1/projects/{project_id}/provider"
REPLAY = PATH + "/session-replay"
UPSTREAM = ("service_unavailable", "upstream_error", "upstream_timeout")


@groups.PROVIDER.post(PATH + "/provision", "Provision a project at the analytics provider")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(TeamProvisioned, errors=("provider_provisioning_blocked", "service_unavailable"))
async def provision_provider(
    call: Call,
    data: JSONBody[ProvisionTeam],  # noqa: ARG001 - only its form counts
) -> Outcome:
    """Find or create the project's team. Every repeat shows the same one."""
    if (stored := await stored_answer(call)) is not None:
        return stored
    if not call.services.operator.configured:
        return await call.carry_out(team.blocked(call.project_id, None, "unconfigured"), _provisioned)
    async with call.services.exchanges.turn(call.principal.tenant):
        begun = await begin(call, team.begin_provisioning)
        return begun if isinstance(begun, Outcome) else await _provide(call, *begun)


async def _provide(call: Call, attempt: str, begun: team.AttemptBegun | None) -> Outcome:
    """Carry an attempt through. Raises ProvisioningRefused, AttemptLost."""
    if begun is None:
        raise team.refused(ATTEMPT_SECONDS // 2)
    project_id = call.project_id
    if not begun.started:
        return await call.carry_out(team.show_team(project_id), _provisioned)
    found = await provide_team(call.services.operator, project_id, call.principal.tenant, may_create=begun.may_create)
    if isinstance(found, NoTeam):
        intent = team.blocked(project_id, attempt, found.reason, doubtful=found.doubtful, wait=found.wait)
    else:
        intent = team.provisioned(project_id, attempt, found)
    return await call.carry_out(intent, _provisioned)


def _provisioned(row: TeamRow) -> Answer:
    return Answer(HTTPStatus.OK, team.shown_provisioned(row))


@groups.PROVIDER.post(REPLAY + "/configure", "Configure session replay at the analytics provider")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(ReplayConfigured, errors=("provider_not_provisioned", *UPSTREAM))
async def configure_provider_session_replay(call: Call, data: JSONBody[ConfigureReplay]) -> Outcome:
    """Send the settings to the provider, and record them after its confirmation."""
    if (stored := await stored_answer(call)) is not None:
        return stored
    async with call.services.exchanges.turn(call.principal.tenant):
        begun = await begin(call, team.begin_replay)
        return begun if isinstance(begun, Outcome) else await _configure(call, data, *begun)


async def _configure(call: Call, data: ConfigureReplay, attempt: str, begun: team.AttemptBegun | None) -> Outcome:
    """Carry an attempt through. Raises AttemptLost, and the refusal after a failed exchange."""
    if begun is None or begun.row is None or begun.row.team_id is None:
        raise team.busy()
    project_id = call.project_id
    rate = Decimal(str(data.sample_rate)).quantize(Decimal("0.01"), ROUND_HALF_UP)
    settings = ReplaySettings(data.enabled, str(rate), data.mask_all_inputs)
    failed = await call.services.operator.configure(begun.row.team_id, settings, call.principal.tenant)
    if isinstance(failed, ReadFailed):
        return await call.carry_out(team.replay_failed(project_id, attempt, sources.unread(failed)), _nothing)
    return await call.carry_out(team.configured(project_id, attempt, settings), _configured)


def _configured(settled: team.Settled) -> Answer:
    return Answer(HTTPStatus.OK, team.shown_configured(settled.row))


def _nothing(_: None) -> Answer:
    raise AssertionError("a failure is refused")


@groups.PROVIDER.get(REPLAY + "/status", "Read the state of session replay at the analytics provider")
@Who(KEY)
@Docs(ReplayStanding)
async def get_provider_session_replay_status(call: Call) -> Answer:
    """Show the state of replay. The provider may be asked. Without its answer, the last known state is shown."""
    services, account = call.services, call.principal.tenant
    known = await sources.standing_of(services.store, call.project_id)
    with suppress(QueriesBusy):
        if known is not None:
            async with services.exchanges.turn(account):
                known = await team.look(services.store, services.operator, services.sources, known, account)
    return Answer(HTTPStatus.OK, team.standing(call.project_id, known))


ENDPOINTS = [provision_provider, configure_provider_session_replay, get_provider_session_replay_status]
