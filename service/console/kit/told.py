"""Sentences after operations, and answers with a secret shown once. An operation a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DONE: Mapping[str, str] = {
    "assign_case": "The case is assigned.",
    "comment_on_case": "Your comment is written.",
    "create_suppression": "The rule counts for errors from now on, and soon for the cases that are there.",
    "ignore_case": "The case is ignored.",
    "merge_case": "The case is merged. Later errors are counted in the other one.",
    "change_project_settings": "The settings are saved.",
    "put_automation_contract": "The contract is saved, and disabled.",
    "enable_automation_contract": "The automation is enabled.",
    "disable_automation": "The automation is disabled.",
    "start_onboarding": "The plan is handed in. It waits for an owner.",
    "review_onboarding": "Your decision is recorded.",
    "verify_onboarding": "The onboarding is verified.",
    "pause_automation_contract": "The automation of this project is stopped.",
    "decide_automation_approval": "Your decision is recorded.",
    "cancel_automation_run": "The run is cancelled.",
    "verify_automation_run": "The service has counted. The run shows the result.",
    "issue_automation_triggers": "The service has looked for work.",
    "preferences": "Saved.",
    "release_claim": "The claim is released.",
    "remove_source_map": "The file is removed.",
    "remove_suppression": "The rule is removed. What it did to cases stays done.",
    "reopen_case": "The case is open again.",
    "resolve_case": "The case is resolved.",
    "split_case": "The case is split off.",
    "invite_member": "Done. A new member has to accept the invitation: hand the link over.",
    "accept_invitation": "You are a member now.",
    "test_webhook": "The test was sent. The last answer says how it went.",
    "evaluate_alert": "The alert was evaluated. Its row says what was found.",
}
"""The sentence after an operation or a form. One without any is told by its summary."""

SECRETS: Mapping[str, Sequence[tuple[str, str]]] = {
    "create_project": (("DSN", "dsn"), ("Public DSN, for pages", "public_dsn")),
    "rotate_dsn": (("DSN", "dsn"),),
    "rotate_public_dsn": (("Public DSN, for pages", "public_dsn"),),
    "create_credential": (("Credential", "credential"), ("Variable to keep it in", "env_var")),
    "create_webhook": (("Secret", "secret"),),
    "rotate_webhook_secret": (("Secret", "secret"),),
    "create_public_query": (("Publishable key", "publishable_key"), ("Address", "public_url")),
}
"""Operations with a secret in the answer: the label and the member of each."""

LEADING_ON: Mapping[str, str] = {"create_project": "projects/created.html"}
"""The template of an answer with a secret that also tells what comes next. The others have `kit/secret.html`."""
