"""Where a project's onboarding stands, and its signal map (R-ONB-41, R-MAP-01, G-060)."""

from __future__ import annotations

from projections.onboarding.lifecycle import ONBOARDING, OnboardingRow
from projections.onboarding.signal_map import SIGNAL_MAPS, SignalMapRow
from service.eventstore.history.as_of import RowSource
from statemachines.onboarding import lifecycle as onboardings
from statemachines.onboarding import signal_map as signal_maps
from statemachines.onboarding.lifecycle import OnboardingNotStarted
from statemachines.onboarding.signal_map import SignalMapNotFound


async def find_onboarding(rows: RowSource, project_id: str) -> OnboardingRow | None:
    """Find the onboarding of a project; None before its start."""
    return await rows.get(ONBOARDING, project_id, onboardings.stream(project_id).id)


async def onboarding(rows: RowSource, project_id: str) -> OnboardingRow:
    """Read the onboarding of a project. Raises OnboardingNotStarted."""
    row = await find_onboarding(rows, project_id)
    if row is None:
        raise OnboardingNotStarted("No onboarding has been started for this project.", next_action="Start one.")
    return row


async def signal_map(rows: RowSource, project_id: str) -> SignalMapRow:
    """Read the signal map of a project. Raises SignalMapNotFound while no plan is approved."""
    row = await rows.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    if row is None:
        raise SignalMapNotFound(
            "No plan has been approved for this project.",
            next_action="Start an onboarding, and have its plan approved by a human.",
        )
    return row
