"""The closed catalogue of error codes, and the two envelopes that carry them (G-006, G-018, R-ERR-01, R-ERR-02).

A code settles its status, whether a repeat may succeed, and what to say when the refusal itself says nothing more
precise. Nothing here is filled in from a request: caller text never reaches a message or a next action.
"""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

# An error code with its status, its texts, and whether a repeat may succeed (G-006).


class ErrorText(msgspec.Struct, frozen=True):
    """A message and its next action."""

    message: str
    next_action: str


class ErrorCode(NamedTuple):
    """A code: HTTP status, retryability and the default texts. `others` are sent where they fit better."""

    status: int
    retryable: bool
    message: str
    next_action: str
    others: tuple[ErrorText, ...] = ()

    @property
    def texts(self) -> tuple[ErrorText, ...]:
        """Every listed text, the default first."""
        return (ErrorText(self.message, self.next_action), *self.others)


def code(status: int, message: str, next_action: str, *others: tuple[str, str], retryable: bool = False) -> ErrorCode:
    """Declare a code. `others` are further messages, each with its next action."""
    return ErrorCode(status, retryable, message, next_action, tuple(ErrorText(*text) for text in others))


class ErrorBody(msgspec.Struct, frozen=True):
    """The standard error object."""

    code: str
    message: str
    next_action: str
    request_id: str
    retryable: bool
    details: dict[str, Any]


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """The standard envelope (R-ERR-01)."""

    error: ErrorBody


class ClosedErrorBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The error object of the onboarding, credential and automation routes: no other keys (R-ERR-02)."""

    code: Annotated[str, Meta(min_length=1, max_length=160)]
    message: Annotated[str, Meta(min_length=1, max_length=2000)]
    next_action: Annotated[str, Meta(min_length=1, max_length=2000)] | msgspec.UnsetType = msgspec.UNSET
    details: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ClosedErrorEnvelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The closed envelope: the request id is in the header alone."""

    error: ClosedErrorBody


class InvalidField(msgspec.Struct, frozen=True):
    """One present and invalid member: its path, and the expected value."""

    field: str
    reason: str


class InvalidPayloadDetails(msgspec.Struct, frozen=True):
    """The details of `invalid_payload` (R-ERR-06, R-ERR-16). The schema is null for parameters and headers."""

    missing_fields: list[str] = []
    invalid_fields: list[InvalidField] = []
    unknown_fields: list[str] = []
    request_body_schema: dict[str, Any] | None = None


class ErrorCatalogueEntry(msgspec.Struct, frozen=True):
    """An error code.

    `texts` begin with the default. A code of automation is sent with these texts only. Other codes may add detail.
    """

    code: str
    status: int
    retryable: bool
    message: str
    next_action: str
    texts: tuple[ErrorText, ...]


class ErrorCatalogue(msgspec.Struct, frozen=True):
    """Every code that this service answers with."""

    errors: list[ErrorCatalogueEntry]
    count: int
    next_action: str


_READ = "Read the resource again and decide from its current state."
_SCHEMA = "Fetch the operation's schema from /v1/openapi.json with its path and method, then correct the request."
_LIST = "Check the id against the list operation of this resource."
_BACKOFF = "Retry with exponential backoff and the same Idempotency-Key."
_GRANT = "Read the run's grants and continue with the one that is open."
_CALLER = "Use a credential of a kind that this operation lists under its security in /v1/openapi.json."


_REQUEST = {
    "invalid_payload": code(400, "The request does not have the form of this operation.", _SCHEMA),
    "invalid_if_match": code(
        400,
        "If-Match must hold exactly one quoted tag.",
        "Send the etag of the resource as you read it, quotes included.",
    ),
    "idempotency_key_required": code(
        400,
        "This operation needs an Idempotency-Key.",
        "Send a fresh Idempotency-Key of 1-255 visible ASCII characters.",
    ),
    "authorization_pending": code(
        400, "Nobody has authorized the code yet.", "Wait for the given interval, then poll again.", retryable=True
    ),
    "slow_down": code(
        400,
        "You poll faster than the interval allows.",
        "Add five seconds to the interval, then poll.",
        retryable=True,
    ),
    "access_denied": code(400, "The authorization was denied.", ("Start a new device flow if you still want access.")),
    "expired_token": code(400, "The device code has expired or was used.", "Start a new device flow."),
    "unauthenticated": code(
        401, "No valid credential was presented.", "Send a live credential as Authorization: Bearer."
    ),
    "invalid_signature": code(
        401, "The signature does not match the body.", "Sign the exact bytes you send, with the current secret."
    ),
    "invalid_publishable_key": code(
        401, "The publishable key does not match this publication.", "Use the key shown when the query was published."
    ),
    "quota_exceeded": code(
        402, "The account's quota is used up.", "Read /v1/billing/status, then upgrade or wait for the next period."
    ),
    "owner_required": code(403, "This operation is reserved for the project's owner.", ("Ask an owner to do it.")),
    "reauthentication_required": code(
        403, "Your last sign-in was over 15 minutes ago.", "Sign in again, then repeat the request."
    ),
    "principal_not_allowed": code(403, "This kind of credential is not accepted here.", _CALLER),
    "origin_not_allowed": code(
        403,
        "A page of another origin may not call this operation.",
        "Call it from a program, by the address of this installation and without an Origin header.",
    ),
    "scope_missing": code(
        403,
        "The credential lacks the scope of this operation.",
        "Create a credential that has the scope named in details.",
    ),
    "method_not_allowed": code(
        405, "This path does not accept this method.", "Use one of the methods in the Allow header."
    ),
    "idempotency_in_progress": code(
        409, "A request with this key is still running.", "Retry the same request after Retry-After.", retryable=True
    ),
    "precondition_failed": code(412, "The resource has changed since you read it.", _READ),
    "payload_too_large": code(
        413, "The body is larger than this operation accepts.", "Send at most details.max_bytes bytes."
    ),
    "unsupported_media_type": code(
        415, "The body must be JSON without a content coding.", "Send Content-Type: application/json, uncompressed."
    ),
    "idempotency_key_reused": code(
        422, "The key was used for a different request.", "Use a fresh Idempotency-Key for a different request."
    ),
    "if_match_required": code(
        428, "This operation needs If-Match.", "Read the resource and send its etag as If-Match."
    ),
    "rate_limited": code(429, "Too many requests.", "Wait for the seconds in Retry-After, then retry.", retryable=True),
}

_MISSING = {
    "not_found": code(404, "There is nothing at this path.", "List the operations with /v1/openapi.json?index=true."),
    "project_not_found": code(404, "There is no such project.", "List your projects with GET /v1/projects."),
    "case_not_found": code(404, "There is no such case.", _LIST),
    "event_not_found": code(
        404, "The case has no such error stored.", "List its stored errors with GET /v1/cases/{case_id}/events."
    ),
    "credential_not_found": code(404, "There is no such credential.", _LIST),
    "onboarding_not_started": code(
        404, "No onboarding has been started for this project.", "Start it with a plan: POST the project's onboarding."
    ),
    "signal_map_not_found": code(
        404, "No plan has been approved for this project.", "Have an onboarding plan approved first."
    ),
    "playbook_not_found": code(404, "There is no such playbook.", "List the playbooks."),
    "playbook_version_not_found": code(404, "The playbook has no such version.", "Read the playbook for its versions."),
    "automation_contract_not_found": code(
        404, "The project has no automation contract.", "Render a playbook, then save the contract."
    ),
    "grant_not_found": code(404, "There is no such grant.", _GRANT),
    "webhook_not_found": code(404, "There is no such webhook.", _LIST),
    "destination_not_found": code(404, "There is no such destination.", "List the notifications of the project."),
    "delivery_not_found": code(404, "There is no such delivery, or none any more.", _LIST),
    "alert_not_found": code(404, "There is no such alert.", "Check the id against the answer that created the alert."),
    "publication_not_found": code(
        404, "There is no such publication.", "Check the id against the answer that published the query."
    ),
    "checkpoint_not_found": code(404, "The log has no checkpoint yet.", "Ask again once a worker has signed the log."),
    "tile_not_found": code(
        404,
        "The signed tree has no such tile.",
        "Take the size of the newest checkpoint, and the address from C2SP tlog-tiles.",
    ),
    "log_size_not_found": code(
        404, "The signed log does not reach that far.", "Read the newest checkpoint for the size of the log."
    ),
    "blueprint_not_found": code(404, "There is no such query blueprint.", "List the query blueprints."),
    "adapter_not_found": code(404, "There is no such adapter document.", "List the adapters with GET /adapters."),
    "sdk_language_not_found": code(
        404, "There is no snippet for this language.", "Use one of the languages in the operation's schema."
    ),
    "operation_not_found": code(
        404, "No operation has this path and method.", "List the operations with /v1/openapi.json?index=true."
    ),
    "verify_report_not_found": code(
        404,
        "There is no signal map yet, so there is nothing to report on.",
        "Have a plan reviewed, then save it with PUT …/signal-map.",
    ),
}

_CONFLICT = {
    "credential_already_created": code(
        409,
        "This request has already created its credential, and the secret was shown then.",
        "Use the credential named in details. Its secret is not shown again.",
    ),
    "last_owner": code(409, "This person is the only owner.", "Make another member an owner first."),
    "too_many_invitations": code(
        409,
        "The project has reached its limit of open invitations.",
        "Revoke an invitation, or wait until one expires.",
    ),
    "person_deletion_in_progress": code(
        409,
        "Another request has begun to delete this person.",
        "Repeat that request, with its key.",
    ),
    "project_deletion_in_progress": code(
        409, "The project is being deleted.", "Stop using the project. Deletion is final."
    ),
    "onboarding_state_conflict": code(409, "Onboarding is not in a state that allows this.", _READ),
    "plan_hash_mismatch": code(409, "The decision names another plan than the current one.", _READ),
    "source_snapshot_mismatch": code(
        409, "The running proof is for another source snapshot.", "Take the snapshot again from a clean commit."
    ),
    "signal_map_managed_by_onboarding": code(
        409,
        "The signal map follows from the project's onboarding.",
        "Change the plan with POST …/onboarding, and have it approved.",
    ),
    "install_state_conflict": code(409, "The install flow is not in a state that allows this.", _READ),
    "provider_not_provisioned": code(
        409, "The analytics provider is not set up for this project.", "Provision the provider first."
    ),
    "readiness_incomplete": code(
        409, "The automation is missing something it needs.", "Close the gaps in details, then retry."
    ),
    "report_source_required": code(409, "The report's source has not been read.", "Read the report source first."),
    "source_hash_mismatch": code(
        409, "The report uses another source.", "Read the report source again and report on that."
    ),
    "insufficient_sample": code(
        409, "The sample is too small for a report.", "Record a report with readiness gaps only."
    ),
    "report_values_differ": code(
        409,
        "A finding of the report contradicts its source.",
        "Copy every value and column of a finding from the report source.",
    ),
    "report_already_recorded": code(
        409, "The run has recorded its report.", "Read the run: its output is the report that was recorded."
    ),
}

_SERVER = {
    "internal_error": code(500, "The service failed to carry this out.", _BACKOFF, retryable=True),
    "stream_damaged": code(
        500,
        "The stored data of this resource is inconsistent. Nothing was changed.",
        "Tell the operator to run `service doctor`. No other resource is affected.",
        retryable=True,
    ),
    "upstream_error": code(502, "A provider answered with an error.", _BACKOFF, retryable=True),
    "service_unavailable": code(
        503,
        "The service cannot process this now.",
        _BACKOFF,
        (
            "The report's source could not be read yet.",
            "Retry the same request after Retry-After. The service reads the source again.",
        ),
        retryable=True,
    ),
    "stream_is_newer": code(
        503,
        "A later release of the service wrote to this resource, and this release cannot read it.",
        "Retrying does not help. Ask the operator to upgrade every process. Other resources still work.",
    ),
    "provider_provisioning_blocked": code(
        503,
        "The analytics provider cannot be set up now.",
        "Errors and deploys still work. Retry later.",
        retryable=True,
    ),
    "payment_provider_unavailable": code(503, "The payment provider cannot be reached.", _BACKOFF, retryable=True),
    "upstream_timeout": code(504, "A provider did not answer in time.", _BACKOFF, retryable=True),
}

# The codes that commands on automation are refused with, and every text that each is sent with (G-006). They are read
# out of the refusals themselves (scripts/refusals.py): what is listed is what clients get, and nothing else.

_FORBIDDEN = {"automation_mismatch", "claim_required"}


def _of_run(name: str, texts: list[tuple[str, str]]) -> ErrorCode:
    """A code of automation: its status follows from its name, and its first text is the default."""
    status = 403 if name in _FORBIDDEN else 404 if name.endswith("_not_found") else 409
    [(message, next_action), *others] = texts
    return code(status, message, next_action, *others)


RUN_ERRORS: dict[str, ErrorCode] = {
    name: _of_run(name, texts)
    for name, texts in msgspec.json.decode(
        Path(__file__).with_name("run_errors.json").read_bytes(), type=dict[str, list[tuple[str, str]]]
    ).items()
}

CATALOGUE: dict[str, ErrorCode] = {**_REQUEST, **_MISSING, **_CONFLICT, **RUN_ERRORS, **_SERVER}
