"""The row of a team: attempts, what was provisioned, and the settings that the provider has taken last."""

from __future__ import annotations

from typing import Any

from projections.provider import TEAMS
from statemachines.kernel.machine import Event
from statemachines.provider import (
    ProvisioningBlocked,
    ProvisioningStarted,
    ReplayConfigured,
    ReplayFailed,
    ReplayStarted,
    TeamProvisioned,
)
from tests.projections.rows import check_middle, check_row

EMPTY: dict[str, Any] = {
    "attempt_until": None,
    "doubt_until": None,
    "team_id": None,
    "token": None,
    "host": None,
    "provisioned_at": None,
    "replay_enabled": None,
    "sample_rate": None,
    "mask_all_inputs": None,
    "configured_at": None,
    "replay_revision": None,
}
HISTORY: list[Event] = [
    ProvisioningStarted("att_1", 100),
    ProvisioningBlocked("unreachable", True, 110),
    ProvisioningStarted("att_2", 200),
    TeamProvisioned(7, "phc_public", "https://p", 205),
    ReplayStarted("att_3", 300),
    ReplayConfigured(True, "0.50", False, 301),
    ReplayStarted("att_4", 400),
    ReplayFailed(401),
]
THERE = {"team_id": 7, "token": "phc_public", "host": "https://p", "provisioned_at": 205}
SET = {"replay_enabled": True, "sample_rate": "0.50", "mask_all_inputs": False, "configured_at": 301}


def test_a_row_shows_its_stream() -> None:
    expected: list[dict[str, Any]] = [
        {"status": "provisioning", "attempt_until": 140},
        {"status": "upstream_blocked", "doubt_until": 170},
        {"status": "provisioning", "doubt_until": 170, "attempt_until": 240},
        {"status": "provisioned", **THERE},
        {"status": "provisioned", **THERE, "attempt_until": 340},
        {"status": "replay_configured", **THERE, **SET, "replay_revision": 6},
        {"status": "replay_configured", **THERE, **SET, "replay_revision": 6, "attempt_until": 440},
        {"status": "replay_configured", **THERE, **SET, "replay_revision": 6},
    ]
    for number, columns in enumerate(expected, start=1):
        check_row(TEAMS, HISTORY[:number], EMPTY | columns | {"revision": number})
    check_middle(TEAMS, HISTORY[2:])
