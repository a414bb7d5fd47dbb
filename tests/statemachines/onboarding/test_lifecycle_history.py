"""Stored events of onboarding, signal map and provider connection stay readable (design §3)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from schemas.analytics.connection import READ_SCOPES
from schemas.onboarding.lifecycle import Receipt
from service.eventstore.codec import canonical
from statemachines.analytics.connection import (
    ConnectionDenied,
    ConnectionExpired,
    ConnectionGranted,
    ConnectionStarted,
    Reason,
)
from statemachines.kernel.machine import Event
from statemachines.onboarding.lifecycle import (
    OnboardingApproved,
    OnboardingPlanned,
    OnboardingProofStarted,
    OnboardingVerified,
)
from statemachines.onboarding.plan import hash_plan
from statemachines.onboarding.signal_map import SignalMapRecorded, SignalMapVerified, SignalMapWithdrawn
from tests.schemas.onboarding.test_lifecycle import RECEIPT
from tests.support.plans import history_body, make_plan, make_snapshot

GOLDEN = Path(__file__).parents[2] / "golden" / "events"
PLAN = make_plan(historical_evidence=history_body())
PLAN_SHA256 = hash_plan(PLAN)
PROOF = msgspec.convert(RECEIPT, Receipt)
AT = 1_700_000_000
EVENTS: list[Event] = [
    OnboardingPlanned("onb_00000000000000000000000001", PLAN, PLAN_SHA256, AT),
    OnboardingApproved(PLAN_SHA256, AT + 1),
    OnboardingProofStarted("ps_00000000000000000000000001", make_snapshot(), "1" * 64, "2" * 64, AT + 2, AT + 7202),
    OnboardingVerified(PROOF),
    SignalMapRecorded(PLAN, PLAN_SHA256, AT + 1),
    SignalMapVerified(PROOF),
    SignalMapWithdrawn(AT + 3),
    ConnectionStarted("https://provider.example", None, READ_SCOPES, AT, AT + 900),
    ConnectionGranted(42, READ_SCOPES, AT + 5),
    ConnectionDenied(Reason.WRITE_SCOPE, AT + 5),
    ConnectionExpired(AT + 900),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.TOPIC)
def test_a_stored_event_stays_readable(event: Event) -> None:
    """What was once written decodes to the same event, and is written the same way today."""
    golden = (GOLDEN / f"{event.TOPIC}.json").read_bytes()
    assert msgspec.json.decode(golden, type=type(event)) == event
    assert canonical(event) == golden
