"""The schema document against the running service: generated requests of every built operation, all checks (P18)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.http.edge.routes import all_endpoints
from tests.e2e.callers import AUTOMATION, Callers, make_callers
from tests.support.server import ServerHandle

ROOT = Path(__file__).parents[2]

# These end the run's own credentials.
EXCLUDED = {
    ("POST", "/v1/keys/{key_id}/revoke"),
    ("POST", "/v1/projects/{project_id}/dsn/rotate"),
    ("POST", "/v1/auth/self_delete"),
    ("DELETE", "/v1/projects/{project_id}"),
}
OPERATIONS = [endpoint.operation for endpoint in all_endpoints()]
# The ids in their paths are known to the run; the others need an id that a generator can only find by chance.
REACHABLE = {
    operation.operation_id
    for operation in OPERATIONS
    if set(re.findall(r"\{(\w+)\}", operation.path)) <= {"project_id", "automation_id", "id"}
}

CONFIG = """
hooks = "tests.e2e.schemathesis_hooks"

[parameters]
"path.project_id" = "{project_id}"
"path.automation_id" = "{automation}"

[generation]
allow-x00 = false               # refused by the body gate, which no schema can state
allow-extra-parameters = false  # unknown query parameters are ignored (G-005)

[checks.positive_data_acceptance]
expected-statuses = {accepted}

[checks.missing_required_header]
expected-statuses = ["4xx"]     # that the resource does not exist comes before If-Match (G-007)

[[operations]]
include-tag = "ingest"
headers = {{ Authorization = "Bearer {dsn}" }}

[[operations]]
include-operation-id = ["authorize_device", "resolve_identity"]
headers = {{ Authorization = "Bearer {internal}" }}

[[operations]]
include-operation-id = "test_authorize_device"
headers = {{ Authorization = "Bearer {test}" }}

[[operations]]
include-path-regex = "^/v1/auth/provider$|^/.well-known/oauth-client$"
[operations.checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", 503]  # no provider is configured here

[[operations]]
include-operation-id = "provision_provider"
[operations.checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", 503]  # no operator has an account here

[[operations]]
include-operation-id = ["start_billing_checkout", "open_billing_portal"]
[operations.checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", 503]  # no payment provider is configured here

[[operations]]
include-path-regex = "/automation-contract/validate$"
[operations.checks.negative_data_rejection]
expected-statuses = [200, "4xx"]  # it answers what is wrong with a document

[[operations]]
include-operation-id = {ruled}
[operations.checks.positive_data_acceptance]
expected-statuses = {accepted_or_ruled_out}
"""
# Statuses of a request with a valid form: caller and state may still refuse it.
ACCEPTED = ["2xx", 401, 403, 404, 409, 410, 412, 428, 429, 503]
# These answer 400 by rules that no schema states: a code is live, an issuer is one of this installation, a document was
# rendered here, a runner names its automation or its lease, a status asks for certain members, a month has begun, an
# address is one for browsers, a file is found by something, bytes are an envelope, an event or a form, a provider sends
# a code or an error, a window ends after it began, a query has one of two forms, a page of events goes in one
# direction, a blueprint is publishable with the parameters of its own, and a message of MCP says its revision.
# `schema_and_decoder_agree` checks them all the same.
RULED = [
    "act_on_cases",
    "add_ci_binding",
    "add_notification_destination",
    "answer_provider_page",
    "assemble_bundle",
    "assemble_project_bundle",
    "assign_case",
    "backtest_automation_contract",
    "capture_posthog_batch",
    "capture_posthog_event",
    "capture_posthog_events",
    "change_case_view",
    "change_sentry_release",
    "change_webhook",
    "create_alert",
    "create_credential",
    "create_public_query",
    "create_sentry_release",
    "create_suppression",
    "preview_case_batch",
    "save_case_view",
    "create_webhook",
    "decide_posthog",
    "disable_automation",
    "get_automation_contract",
    "get_billing_status",
    "get_consistency_proof",
    "get_inclusion_proof",
    "get_onboarding",
    "get_openapi",
    "get_signal_map",
    "get_usage",
    "import_events",
    "ingest_posthog_events",
    "list_events",
    "list_logs",
    "list_project_events",
    "list_stream_events",
    "open_billing_portal",
    "poll_device",
    "poll_provider",
    "preview_alert",
    "put_automation_contract",
    "put_implementation_report",
    "put_signal_map",
    "query_analytics",
    "read_posthog_flags",
    "record_automation_usage",
    "record_minidump",
    "record_security_reports",
    "record_sentry_deploy",
    "record_sentry_envelope",
    "record_sentry_event",
    "record_sentry_user_report",
    "release_claim",
    "replay_webhook",
    "return_from_provider",
    "review_onboarding",
    "run_query_blueprint",
    "send_mcp_message",
    "set_notification_rule",
    "start_billing_checkout",
    "start_onboarding",
    "update_automation_run",
    "upload_chunks",
    "upload_source_map",
]


@pytest.fixture(scope="module")
def callers(server: ServerHandle) -> Callers:
    return make_callers(server)


def run(
    server: ServerHandle, callers: Callers, directory: Path, *more: str, principal: str = "owner", one_in: int = 1
) -> subprocess.CompletedProcess[str]:
    """Run the command line of schemathesis against a server, with one caller's secret where no other is needed.

    Of the requests that the coverage phase lists for each operation, one in so many is sent.
    """
    config = directory / "schemathesis.toml"
    settings = {"accepted": ACCEPTED, "ruled": RULED, "accepted_or_ruled_out": [*ACCEPTED, 400]}
    filled = {name: json.dumps(value) for name, value in settings.items()}
    config.write_text(CONFIG.format(project_id=callers.project_id, automation=AUTOMATION, **filled, **callers.secrets))
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        f"--config-file={config}",
        "run",
        f"{server.base_url}/v1/openapi.json",
        f"--header=Authorization: Bearer {callers.secrets[principal]}",
        *(f"--exclude-operation-id={o.operation_id}" for o in OPERATIONS if (o.method, o.path) in EXCLUDED),
        "--checks=all",
        "--continue-on-failure",
        "--seed=1",
        *more,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COVERAGE_ONE_IN": str(one_in)}
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, env=environment, check=False)


@pytest.mark.timeout(900)
def test_generated_requests(server: ServerHandle, callers: Callers, tmp_path: Path) -> None:
    """No 5xx, no answer outside its schema, no invalid request accepted, no credential ignored.

    A sixth of the cases that the coverage phase lists. `make torture` sends all of them (P18), for three principals.
    """
    phases = "--phases=examples,coverage,fuzzing,stateful"
    done = run(server, callers, tmp_path, "--max-examples=2", phases, one_in=6)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "request_failed" not in server.log()
    # A run in which every request is refused early would pass just as well.
    with server.client() as client:
        metrics = client.get("/metrics").text
    succeeded = set(re.findall(r'service_requests_total\{operation="([a-z_]+)",status="2', metrics))
    assert len(succeeded & REACHABLE) > len(REACHABLE) / 2
