"""The row of a webhook shows its stream, and of address and secret only what events hold."""

from __future__ import annotations

from projections.webhooks import WEBHOOKS
from statemachines import webhooks
from statemachines.kernel.machine import Event
from tests.projections.rows import check_middle, check_row, fold

EVENTS: list[Event] = [
    webhooks.WebhookRegistered("https://example.com", ["*"], "whsec_abcdef", 5),
    webhooks.WebhookChanged("https://example.org", ["case.created"], 6),
    webhooks.WebhookSecretRotated("whsec_uvwxyz", 86_407, 7),
    webhooks.WebhookStopped("gone", 8),
]


def test_a_row_shows_its_stream():
    shown = {
        "revision": 4,
        "origin": "https://example.org",
        "events": ["case.created"],
        "secret_prefix": "whsec_uvwxyz",
        "status": "stopped",
        "stop_reason": "gone",
        "stopped_at": 8,
        "created_at": 5,
    }
    check_row(WEBHOOKS, EVENTS, shown)
    reopened = {"revision": 5, "status": "active", "stop_reason": None, "stopped_at": None}
    check_row(WEBHOOKS, [*EVENTS, webhooks.WebhookReopened(9)], {**shown, **reopened})


def test_a_history_that_begins_in_the_middle_folds():
    check_middle(WEBHOOKS, EVENTS)


def test_a_deleted_webhook_has_no_row():
    assert fold(WEBHOOKS, [*EVENTS, webhooks.WebhookDeleted(9)]) is None
