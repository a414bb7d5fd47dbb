"""The closed catalogue of error codes, and the two envelopes that carry them (G-006, G-018, R-ERR-01, R-ERR-02).

A code settles its status, whether a repeat may succeed, and what to say when the refusal itself says nothing more
precise. Nothing here is filled in from a request: caller text never reaches a message or a next action.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta


class ErrorCode(NamedTuple):
    """What a code means: HTTP status, retryability, and the default texts."""

    status: int
    retryable: bool
    message: str
    next_action: str


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
    """One member that is present and invalid: its path, and what is expected there."""

    field: str
    reason: str


class InvalidPayloadDetails(msgspec.Struct, frozen=True):
    """The details of `invalid_payload` (R-ERR-06, R-ERR-16). The schema is null for parameters and headers."""

    missing_fields: list[str] = []
    invalid_fields: list[InvalidField] = []
    unknown_fields: list[str] = []
    request_body_schema: dict[str, Any] | None = None


class ErrorCatalogueEntry(msgspec.Struct, frozen=True):
    """A code as `GET /v1/errors` lists it."""

    code: str
    status: int
    retryable: bool
    message: str
    next_action: str


class ErrorCatalogue(msgspec.Struct, frozen=True):
    """Every code that this service answers with."""

    errors: list[ErrorCatalogueEntry]
    count: int
    next_action: str


_READ = "Read the resource again and decide from its present state."
_SCHEMA = "Fetch the operation's schema from /v1/openapi.json with its path and method, then correct the request."
_LIST = "Check the id against the list operation of this resource."
_BACKOFF = "Repeat with exponential backoff and the same Idempotency-Key."
_CONTRACT = "Read the automation contract and its control state, and ask the project's owner to change them if needed."
_RECEIPT = "List the trigger receipts of the automation and continue with one that is still claimable."
_CLAIM = "Read the active claim of the case; claim again with a live trigger receipt if there is none."
_RUN = "Read the run and continue from the state and revision it shows."
_GRANT = "Read the run's grants and continue with the one that is open."
_CALLER = "Use a credential of a kind that this operation lists under its security in /v1/openapi.json."


def _code(status: int, message: str, next_action: str, *, retryable: bool = False) -> ErrorCode:
    return ErrorCode(status, retryable, message, next_action)


_REQUEST = {
    "invalid_payload": _code(400, "The request does not have the form of this operation.", _SCHEMA),
    "invalid_if_match": _code(
        400,
        "If-Match must hold exactly one quoted tag.",
        "Send the etag of the resource as it was read, quotes included.",
    ),
    "idempotency_key_required": _code(
        400,
        "This operation needs an Idempotency-Key.",
        "Send a fresh Idempotency-Key of 1-255 visible ASCII characters.",
    ),
    "authorization_pending": _code(
        400, "The code has not been authorised yet.", "Poll again after the interval that was given.", retryable=True
    ),
    "slow_down": _code(
        400,
        "Polling is faster than the interval allows.",
        "Add five seconds to the interval, then poll.",
        retryable=True,
    ),
    "access_denied": _code(400, "The authorization was denied.", "Start a new device flow if access is still wanted."),
    "expired_token": _code(400, "The device code is over or was used.", "Start a new device flow."),
    "unauthenticated": _code(
        401, "No valid credential was presented.", "Send a live credential as Authorization: Bearer."
    ),
    "invalid_signature": _code(
        401, "The signature does not match the body.", "Sign the exact bytes that are sent with the current secret."
    ),
    "invalid_publishable_key": _code(
        401, "The publishable key does not match this publication.", "Use the key shown when the query was published."
    ),
    "quota_exceeded": _code(
        402, "The account's quota is used up.", "Read /v1/billing/status, then upgrade or wait for the next period."
    ),
    "owner_required": _code(
        403, "This operation is reserved for the project's owner.", "Ask an owner to carry it out."
    ),
    "principal_not_allowed": _code(403, "This kind of credential is not accepted here.", _CALLER),
    "scope_missing": _code(
        403,
        "The credential lacks the scope of this operation.",
        "Create a credential that has the scope named in details.",
    ),
    "automation_mismatch": _code(
        403, "The credential belongs to another automation.", "Use the runner credential of the automation concerned."
    ),
    "claim_required": _code(403, "This read needs the current claim on the case.", _CLAIM),
    "method_not_allowed": _code(
        405, "This path does not have this method.", "Use one of the methods in the Allow header."
    ),
    "idempotency_in_progress": _code(
        409, "A request with this key is still running.", "Repeat the same request after Retry-After.", retryable=True
    ),
    "precondition_failed": _code(412, "The resource has moved on since it was read.", _READ),
    "payload_too_large": _code(
        413, "The body is larger than this operation takes.", "Send at most the number of bytes in details.max_bytes."
    ),
    "unsupported_media_type": _code(
        415, "The body must be JSON without a content coding.", "Send Content-Type: application/json, uncompressed."
    ),
    "idempotency_key_reused": _code(
        422, "The key was used for a different request.", "Use a fresh Idempotency-Key for a different request."
    ),
    "if_match_required": _code(
        428, "This operation needs If-Match.", "Read the resource and send its etag as If-Match."
    ),
    "rate_limited": _code(
        429, "Too many requests.", "Wait for the seconds in Retry-After, then repeat.", retryable=True
    ),
}

_MISSING = {
    "not_found": _code(404, "There is nothing at this path.", "List the operations with /v1/openapi.json?index=true."),
    "project_not_found": _code(404, "There is no such project.", "List your projects with GET /v1/projects."),
    "case_not_found": _code(404, "There is no such case.", _LIST),
    "credential_not_found": _code(404, "There is no such credential.", _LIST),
    "onboarding_not_started": _code(
        404, "No onboarding has been started for this project.", "Start it with a plan: POST the project's onboarding."
    ),
    "signal_map_not_found": _code(
        404, "No plan has been approved for this project.", "Have an onboarding plan approved first."
    ),
    "playbook_not_found": _code(404, "There is no such playbook.", "List the playbooks."),
    "playbook_version_not_found": _code(
        404, "The playbook has no such version.", "Read the playbook for its versions."
    ),
    "automation_contract_not_found": _code(
        404, "The project has no automation contract.", "Render a playbook, then save the contract."
    ),
    "automation_not_found": _code(404, "The contract has no such automation.", _CONTRACT),
    "trigger_receipt_not_found": _code(404, "There is no such trigger receipt.", _LIST),
    "claim_not_found": _code(404, "There is no such claim.", _CLAIM),
    "run_not_found": _code(404, "There is no such run.", _LIST),
    "approval_not_found": _code(404, "There is no such approval.", _LIST),
    "grant_not_found": _code(404, "There is no such grant.", _GRANT),
    "webhook_not_found": _code(404, "There is no such webhook.", _LIST),
    "alert_not_found": _code(404, "There is no such alert.", "Check the id against the answer that created the alert."),
    "publication_not_found": _code(
        404, "There is no such publication.", "Check the id against the answer that published the query."
    ),
    "blueprint_not_found": _code(404, "There is no such query blueprint.", "List the query blueprints."),
    "adapter_not_found": _code(404, "There is no such adapter document.", "List the adapters with GET /adapters."),
    "sdk_language_not_found": _code(
        404, "There is no snippet for this language.", "Use one of the languages in the operation's schema."
    ),
    "operation_not_found": _code(
        404, "No operation has this path and method.", "List the operations with /v1/openapi.json?index=true."
    ),
    "verify_report_not_found": _code(404, "No report has been stored yet.", "Verify the install first."),
}

_CONFLICT = {
    "credential_already_created": _code(
        409,
        "This request has made its credential, and the secret was shown then.",
        "Use the credential named in details; its secret is not shown again.",
    ),
    "project_deletion_in_progress": _code(
        409, "The project is being deleted.", "Stop using the project; this is final."
    ),
    "onboarding_state_conflict": _code(409, "Onboarding is not in a state that allows this.", _READ),
    "plan_hash_mismatch": _code(409, "The decision is about another plan than the current one.", _READ),
    "source_snapshot_mismatch": _code(
        409, "The running proof is for another source snapshot.", "Take the snapshot again from a clean commit."
    ),
    "signal_map_managed_by_onboarding": _code(
        409, "The signal map belongs to onboarding.", "Change it by revising the onboarding plan."
    ),
    "install_state_conflict": _code(409, "The install flow is not in a state that allows this.", _READ),
    "provider_not_provisioned": _code(
        409, "The analytics provider is not set up for this project.", "Provision the provider first."
    ),
    "readiness_incomplete": _code(
        409, "Not everything that the automation needs is in place.", "Complete the gaps named in details, then repeat."
    ),
    "automation_disabled": _code(409, "The automation is disabled.", _CONTRACT),
    "automation_paused": _code(409, "Automation is paused for this project.", _CONTRACT),
    "receipt_not_claimable": _code(409, "The trigger receipt cannot be claimed.", _RECEIPT),
    "receipt_already_consumed": _code(409, "The trigger receipt has been used.", _RECEIPT),
    "receipt_expired": _code(409, "The trigger receipt has expired.", _RECEIPT),
    "receipt_policy_superseded": _code(409, "The receipt was issued under an older contract.", _RECEIPT),
    "materiality_not_met": _code(
        409, "The case is not material under the contract.", "Wait until its counts reach the contract's thresholds."
    ),
    "case_revision_stale": _code(409, "The case has changed since it was read.", _READ),
    "case_already_claimed": _code(409, "Another claim on the case is active.", _CLAIM),
    "claim_required_for_run": _code(409, "The run needs an active claim.", _CLAIM),
    "claim_not_active": _code(409, "The claim is not active.", _CLAIM),
    "stale_lease_epoch": _code(409, "The lease epoch is not the current one.", _CLAIM),
    "lease_expired": _code(409, "The lease has run out.", _CLAIM),
    "stale_state_revision": _code(409, "The run has moved on since it was read.", _RUN),
    "run_transition_not_allowed": _code(409, "The run cannot take this step now.", _RUN),
    "run_terminal": _code(409, "The run has ended.", "Start another run with a new trigger receipt."),
    "deadline_exceeded": _code(409, "The run is past its deadline.", _RUN),
    "budget_exhausted": _code(
        409,
        "The budget does not cover this.",
        "Wait for the window named in details, or ask the owner for a larger one.",
    ),
    "approval_pending": _code(409, "An approval has not been decided.", "Wait for a human decision on the approval."),
    "approval_rejected": _code(409, "The approval was rejected.", _RUN),
    "approval_already_decided": _code(409, "The approval has been decided.", "Read the approval for the decision."),
    "scope_violation": _code(
        409, "The change goes beyond what was granted.", "Reduce it to the bounds that the contract shows."
    ),
    "grant_not_available": _code(409, "No grant is available for this.", _GRANT),
    "grant_already_authorized": _code(409, "A grant of this kind was authorized before.", _GRANT),
    "delivery_mode_mismatch": _code(409, "The contract has another delivery mode.", _CONTRACT),
    "pr_proof_required": _code(
        409, "Proof of the pull request is missing.", "Have CI post the proof of the pull request first."
    ),
    "pr_proof_mismatch": _code(
        409, "The proof does not match the pull request.", "Post a proof of exactly the pull request that was granted."
    ),
    "deploy_not_bound": _code(
        409, "No deploy is bound to the run.", "Record the deploy of the merged commit, then repeat."
    ),
    "report_source_required": _code(409, "The report's source has not been read.", "Read the report source first."),
    "source_hash_mismatch": _code(
        409, "The report rests on another source.", "Read the report source again and report on that."
    ),
    "insufficient_sample": _code(409, "The sample is too small for a report.", "Wait for more observations."),
    "report_already_recorded": _code(409, "The run has recorded its report.", _RUN),
}

_SERVER = {
    "internal_error": _code(500, "The service failed to carry this out.", _BACKOFF, retryable=True),
    "not_built_yet": _code(
        501, "This operation is documented and not built yet.", "Continue without it; the schema marks it x-not-built."
    ),
    "upstream_error": _code(502, "A provider answered with an error.", _BACKOFF, retryable=True),
    "service_unavailable": _code(503, "The service cannot take this now.", _BACKOFF, retryable=True),
    "provider_provisioning_blocked": _code(
        503,
        "The analytics provider cannot be set up now.",
        "Errors and deploys work meanwhile; repeat later.",
        retryable=True,
    ),
    "payment_provider_unavailable": _code(503, "The payment provider cannot be reached.", _BACKOFF, retryable=True),
    "upstream_timeout": _code(504, "A provider did not answer in time.", _BACKOFF, retryable=True),
}

CATALOGUE: dict[str, ErrorCode] = {**_REQUEST, **_MISSING, **_CONFLICT, **_SERVER}
