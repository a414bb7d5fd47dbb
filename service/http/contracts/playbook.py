"""The playbook catalogue, and rendering a disabled candidate (R-PB, G-100). Nothing here writes anything."""

from functools import cache, partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from schemas.contracts import playbook as wire
from schemas.contracts.contract import Candidate, ContractInput
from schemas.kernel.published import publish
from service.auth.authority import PrincipalKind
from service.contracts import contract
from service.eventstore.declare.commands import Answer
from service.http.contracts.faults import refuse_document
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.http.edge.routes import all_endpoints
from statemachines.contracts import playbook
from statemachines.contracts.documents import POLICY_VERSION, contract_input
from statemachines.kernel.shapes import INVALID, Problem, json_schema

_PUBLIC = {"cache-control": "public, max-age=300"}
_ANYONE = frozenset({PrincipalKind.ANONYMOUS})


@cache
def operation_ids() -> dict[tuple[str, str], str]:
    """The id of each operation of the API by method and path, as the schema document has it (G-117)."""
    return {(e.operation.method, e.operation.path): e.operation.operation_id for e in all_endpoints()}


@cache
def _show(template: playbook.Template) -> wire.Playbook:
    return contract.playbook(template, operation_ids())


@groups.AUTOMATION.get("/v1/automation-playbooks", "List the automation playbooks at their latest versions")
@Who(_ANYONE)
@Fencing(rate="none")
@Docs(wire.PlaybookCatalog)
async def list_automation_playbooks() -> Answer:
    """List every template at its latest version."""
    playbooks = [_show(template) for template in playbook.latest_templates()]
    catalog = wire.PlaybookCatalog(
        count=len(playbooks),
        playbooks=playbooks,
        next_action="Choose a playbook, read the project's signal map, and render a disabled candidate.",
    )
    return Answer(200, catalog, _PUBLIC)


@groups.AUTOMATION.get("/v1/automation-playbooks/{id}", "Read one playbook version, the latest by default")
@Who(_ANYONE)
@Fencing(rate="none")
@Docs(wire.Playbook, errors=("playbook_not_found", "playbook_version_not_found"))
async def get_automation_playbook(params: NamedDependency[wire.PlaybookQuery], id: FromPath[str]) -> Answer:
    """Read one version."""
    return Answer(200, _show(playbook.find_template(id, params.version)), _PUBLIC)


@groups.AUTOMATION.post(
    "/v1/projects/{project_id}/automation-playbooks/{id}/render",
    "Render a disabled candidate from bindings, without saving anything",
)
@Who(KEY)
@Body(max_body=wire.MAX_RENDER_BYTES, shown_body=wire.RenderBody)
@Fencing(mutation=False, idempotency="optional")
@Docs(Candidate, errors=("playbook_not_found",))
async def render_automation_playbook(call: Call, data: JSONBody[wire.RenderRequest], id: FromPath[str]) -> Answer:
    """Render bindings into a disabled candidate: a function of the request alone (R-PB-05 to R-PB-07)."""
    template = playbook.find_template(id)
    return Answer(200, await call.work_on_body(partial(_render, template, call.project_id, data)))


def _render(template: playbook.Template, project_id: str, body: wire.RenderRequest) -> Candidate:
    """Make the candidate. Raises InvalidPayload with everything that is wrong with the bindings."""
    bindings, assertions = body.bindings, body.readiness_assertions
    _check_request(template, body)
    entry = playbook.assemble_entry(template, bindings, assertions)
    return Candidate(
        project_id=project_id,
        playbook=playbook.reference(template),
        automation=entry["policy"],
        contract_input=ContractInput(POLICY_VERSION, [entry]),
        candidate_sha256=playbook.sha256_of(contract_input([entry])),
        readiness_gaps=playbook.assertion_gaps(template, assertions),
        next_action="Review the policy and validate contract_input. An owner can save it with PUT. It stays disabled.",
    )


def _check_request(template: playbook.Template, request: wire.RenderRequest) -> None:
    """Refuse a request with any fault, naming all of them. Raises InvalidPayload."""
    found = []
    if request.version != template.version:
        found.append(Problem("version", INVALID, f"Must be `{template.version}`."))
    found += playbook.check_bindings(template, request.bindings, "bindings")
    found += playbook.check_assertions(template, request.readiness_assertions, request.bindings, "readiness_assertions")
    if found:
        raise refuse_document(
            "The bindings do not fit this playbook.",
            found,
            publish(json_schema(template.request)),
            [problem.path for problem in found if problem.code == playbook.LOCKED],
        )


ENDPOINTS = [list_automation_playbooks, get_automation_playbook, render_automation_playbook]
