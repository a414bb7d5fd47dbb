"""When a form asks its person to sign in again: before what is dangerous, each time, and before no stop (C-1)."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2
import psycopg
import pytest

from scripts.golden import kept
from service.auth.secrets import digest
from service.console.kit.page import takes
from tests.service.console.consoleforms import Pairs, Sent, every_form, filled
from tests.support.fullscene import FullScene
from tests.support.intruding import OWNER, SIGN_IN, Intruder, operations

pytestmark = pytest.mark.shares_server

ASKS = 'href="/console/again?next='
DANGEROUS = {
    name
    for row in (
        "add_ci_binding add_notification_destination",
        "change_webhook create_credential create_public_query create_webhook decide_automation_approval",
        "delete_account delete_alert delete_project delete_user delete_webhook enable_automation_contract",
        "invite_member review_onboarding rotate_dsn rotate_public_dsn rotate_webhook_secret",
    )
    for name in row.split()
}
"""What approves, enables, deletes, rotates, or gives somebody or something a way in or out."""
STOPS = {
    name
    for row in (
        "cancel_automation_run delete_public_query disable_automation end_session pause_automation_contract",
        "release_claim remove_ci_binding remove_member revoke_credential revoke_invitation revoke_key",
    )
    for name in row.split()
}
"""What stops, or takes a right away. It must never wait for a sign-in."""
PLAIN = {
    name
    for row in (
        "accept_invitation assemble_bundle assemble_project_bundle assign_case backtest_automation_contract",
        "change_project_settings change_sentry_release create_sentry_release record_sentry_deploy",
        "comment_on_case configure_provider_session_replay connect_provider create_alert create_case_run",
        "create_project create_suppression disconnect_provider evaluate_alert ignore_case",
        "import_events issue_automation_triggers merge_case",
        "open_billing_portal plan_install poll_provider preview_alert preview_suppression provision_provider",
        "put_automation_contract put_implementation_report put_signal_map query_analytics remove_source_map",
        "act_on_cases change_case_view preview_case_batch remove_case_view save_case_view",
        "remove_suppression render_automation_playbook reopen_case replay_webhook resend_webhook_delivery",
        "resolve_case run_query_blueprint send_feedback split_case start_billing_checkout start_onboarding",
        "delete_notification_destination remove_notification_rule set_notification_rule",
        "test_notification_destination",
        "start_onboarding_proof test_webhook unmangle_case validate_automation_contract verify_automation_run",
        "verify_dsn verify_install verify_onboarding",
    )
    for name in row.split()
}
"""All others: everyday work, and drafts that somebody has to approve or enable before they count."""
ASKED_FOR_BODY: Mapping[str, Pairs] = {
    "change_webhook": [("url", "https://elsewhere.example/")],
    "decide_automation_approval": [("decision", "approve"), ("reason", "It is right.")],
    "review_onboarding": [("decision", "approve"), ("plan_sha256", "a" * 64)],
}
"""A body of each operation that asks because of its body."""
BODIES: Mapping[str, Pairs] = {"disable_automation": [("enabled", "false")]}
NEVER_FOR_BODY: Mapping[str, Pairs] = {
    "change_webhook": [("enabled", "false")],
    "decide_automation_approval": [("decision", "reject"), ("reason", "No.")],
}


@pytest.fixture(scope="module")
def stale(full: FullScene, intruder: Intruder) -> str:
    """A session of the owner, who signed in a quarter of an hour ago. The others are fresh."""
    assert full.at.server.database_url is not None
    secret = full.session(OWNER)
    assert intruder.another
    with psycopg.connect(full.at.server.database_url, autocommit=True) as sql:
        made = "update sessions set authenticated_at = authenticated_at - 901 where secret_hash = %s"
        assert sql.execute(made, (digest(secret),)).rowcount == 1
    return secret


def send(intruder: Intruder, secret: str, form: Sent, *more: tuple[str, str], tag: str = '"x"') -> httpx2.Response:
    """Send a form with all that its session needs."""
    fields = [*filled(intruder.token(secret), [*form.fields, *more])]
    return intruder.post(form.place, [(name, tag if name == "_if_match" else value) for name, value in fields], secret)


def test_each_operation_is_judged() -> None:
    """The file that says which operations ask says it of the dangerous ones alone."""
    told = dict(line.split(": ", 1) for line in kept("freshness"))
    assert {*DANGEROUS, *STOPS, *PLAIN} == {name for name, one in operations().items() if takes(one)}
    assert len(DANGEROUS) + len(STOPS) + len(PLAIN) == len({*DANGEROUS, *STOPS, *PLAIN})
    assert {name for name in told if told[name] != "never"} == DANGEROUS
    assert {name for name in told if told[name] not in {"never", "always"}} == ASKED_FOR_BODY.keys()


def test_a_dangerous_form_asks_an_old_session_and_does_nothing(full: FullScene, intruder: Intruder, stale: str) -> None:
    """Also those with a taker of their own; and what asks because of its body asks for nothing else."""
    asked = set()
    for form in every_form(full):
        dangerous = form.rule in DANGEROUS or form.place in {"device", "settings/keys", "settings/delete-account"}
        if not dangerous:
            continue
        answer = send(intruder, stale, form, *ASKED_FOR_BODY.get(form.rule, ()))
        assert answer.status_code == 403, form.place
        assert ASKS in answer.text, form.place
        asked.add(form.place)
    assert len(asked) == len(DANGEROUS) + 5


def test_no_stop_and_no_everyday_form_asks(full: FullScene, intruder: Intruder, stale: str) -> None:
    """All others, with real ids; and each stop is carried out, the end of this session last."""
    forms, at = {form.place: form for form in every_form(full)}, full.at
    full._another("Another cart is empty")  # to cancel one run, and to take the claim of another away
    claim = [("_path.case_id", at.case_id), ("_path.claim_id", at.claim_id)]
    forms["do/release_claim"] = forms["do/release_claim"]._replace(fields=claim)
    tag = at.must(full.world.call("GET", full.world.contract))["etag"]
    of_bindings = at.must(at.call("GET", f"{at.project}/ci-bindings", who="owner"))["etag"]
    for name in sorted(STOPS):
        etag = of_bindings if name == "remove_ci_binding" else tag
        answer = send(intruder, stale, forms[f"do/{name}"], *BODIES.get(name, ()), tag=etag)
        assert answer.status_code == 303, f"{name}: {answer.text}"
        assert f"done={name}" in answer.headers["location"]
    for name, body in NEVER_FOR_BODY.items():
        assert ASKS not in send(intruder, stale, forms[f"do/{name}"], *body).text, name
    for form in forms.values():
        if form.rule in PLAIN:
            answer = send(intruder, stale, form)
            assert ASKS not in answer.text, form.place
            assert answer.headers.get("location") != SIGN_IN, form.place
    refused = [(name, "refuse" if name == "decision" else value) for name, value in forms["device"].fields]
    assert send(intruder, stale, forms["device"]._replace(fields=refused)).status_code == 303
    assert send(intruder, stale, forms["leave"]).headers["location"] == SIGN_IN
    assert intruder.get("sessions", stale).status_code == 303
