"""`POST /v1/cases/{case_id}/unmangle` at the edge (R-CASE-03, R-CASE-04, G-054)."""

from schemas.cases.event import UnmangledCase
from service.auth.refusals import require_extra
from service.cases.sourcemaps import unmangling
from service.eventstore.declare.commands import Answer, Intent, Outcome
from service.http.cases.case import CASE_LOCATED
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY


@groups.CASES.post("/v1/cases/{case_id}/unmangle", "Resolve the frames of a case's latest error to their sources")
@Who(KEY, subject=CASE_LOCATED)
@Fencing(mutation=False, idempotency="optional", quota_locked=True)
@Docs(UnmangledCase, errors=("case_not_found",))
async def unmangle_case(call: Call) -> Answer | Outcome:
    """Resolve the frames of the latest error with the source maps that are stored; nothing is changed."""
    require_extra(unmangling.EXTRA)
    case_id = call.subject.id
    found = await call.services.unmangler.unmangle(call.project_id, case_id, call.principal.tenant)
    answer = Answer(200, unmangling.unmangled(case_id, found))
    if call.key is None:
        return answer
    # With a key what was answered once is answered again, whatever was uploaded meanwhile (G-008).
    return await call.carry_out(Intent([], lambda _: answer), lambda kept: kept)


ENDPOINTS = [unmangle_case]
