"""`POST /v1/logs/`: one log or error event, stored and in its case before the answer (R-ING-01, R-ING-07)."""

from litestar.params import JSONBody

from schemas.cases.log import MAX_INGEST_BYTES, LogAccepted, LogEvent
from service.eventstore.declare.commands import Answer, Outcome
from service.http.cases.intake.otlp import record_export
from service.http.cases.intake.otlp_form import OTLP_JSON, OTLP_PROTOBUF
from service.http.cases.intake.several import record_several
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.forms import BATCHES
from service.http.declare.operations import SENDERS
from service.ingest.items import take_log


@groups.INGEST.post("/v1/logs/", "Record a log or error event")
@Who(SENDERS)
@Body(
    max_body=MAX_INGEST_BYTES,
    strict=False,
    text_plain=True,
    adjusts=True,
    forms=(*BATCHES, OTLP_PROTOBUF, OTLP_JSON),
    unpacked=MAX_INGEST_BYTES,
)
@Fencing(idempotency="optional")
@Docs({202: LogAccepted})
async def record_log(call: Call, data: JSONBody[LogEvent]) -> Outcome | Answer:
    """Store a log event, or many; at error level and above each is grouped into a case."""
    if call.form in BATCHES:
        return await record_several(call, "logs", take_log)
    if call.form is not None:
        return await record_export(call)
    return await call.services.intake.submit(take_log(call.sender, data, call.raw_body, call.adjustments))


ENDPOINTS = [record_log]
