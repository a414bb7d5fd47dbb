"""Sentences after operations, and answers with a secret shown once. An operation a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DONE: Mapping[str, str] = {
    "pause_automation_contract": "The automation of this project is stopped.",
    "decide_automation_approval": "Your decision is recorded.",
    "cancel_automation_run": "The run is cancelled.",
    "verify_automation_run": "The service has counted. The run shows the result.",
    "issue_automation_triggers": "The service has looked for work.",
    "preferences": "Saved.",
}
"""The sentence after an operation or a form. One without any is told by its summary."""

SECRETS: Mapping[str, Sequence[tuple[str, str]]] = {
    "create_project": (("DSN", "dsn"),),
}
"""Operations with a secret in the answer: the label and the member of each."""
