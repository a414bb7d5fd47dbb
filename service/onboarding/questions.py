"""What a project's questions rest on: its signal map, its install, and the newest telemetry (G-062, G-157).

The one read behind next steps, answer contracts, verification and verify-report.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.install.flow import INSTALLS, InstallRow, install_state, is_verified
from projections.onboarding.signal_map import SIGNAL_MAPS, SignalMapRow
from service.analytics.metadata.newest import SignalProbe
from service.analytics.queries import BoundedQueries
from service.analytics.refusals import unanswered
from service.eventstore.store import EventStore
from statemachines.install import flow as installs
from statemachines.install.flow import NO_MAP
from statemachines.kernel.readings import ReadFailed
from statemachines.onboarding import signal_map as signal_maps
from statemachines.onboarding.proof import safe_failure
from statemachines.onboarding.questions import NO_QUESTIONS, Questions, SeenSignals, assess_questions


class AskedProject(NamedTuple):
    """A project by its signal map and its install, with its telemetry. None: not read, as a receipt settles it all."""

    signal_map: SignalMapRow | None
    install: InstallRow | None
    seen: SeenSignals | None

    @property
    def all_seen(self) -> SeenSignals:
        """The telemetry, which was read."""
        assert self.seen is not None, "all signals were read"
        return self.seen

    @property
    def map_revision(self) -> int:
        """The revision of the signal map, 0 without one."""
        return NO_MAP if self.signal_map is None else self.signal_map.revision

    @property
    def source_verified(self) -> bool:
        """Whether an onboarding has proven the source."""
        return self.signal_map is not None and self.signal_map.receipt is not None

    @property
    def install_verified(self) -> bool:
        """Whether the source or the install is verified."""
        return self.source_verified or is_verified(self.install, self.map_revision)

    @property
    def state(self) -> str:
        """The state of the install flow."""
        return install_state(self.install, self.map_revision)

    @property
    def questions(self) -> Questions:
        """The questions of the signal map; none without one."""
        if self.signal_map is None:
            return NO_QUESTIONS
        return assess_questions(self.signal_map.plan, None if self.source_verified else self.seen)

    @property
    def answer_ready(self) -> bool:
        """Whether the source or the install is verified, and every question is ready."""
        return self.install_verified and self.questions.ready


async def ask_about(
    store: EventStore, queries: BoundedQueries, project_id: str, tenant: str, *, all_signals: bool = False
) -> AskedProject:
    """Read what the questions of a project rest on, in the name of a tenant.

    Telemetry is read if an answer depends on it, or with `all_signals`. Raises QueriesBusy, and the refusal of
    upstream_error or upstream_timeout after a failed read.
    """
    signal_map = await store.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    install = await store.get(INSTALLS, project_id, installs.stream(project_id).id)
    asked = AskedProject(signal_map, install, None)
    if not all_signals and (signal_map is None or asked.source_verified):
        return asked
    probe = SignalProbe() if signal_map is None else _probe(signal_map)
    seen = await queries.describe(project_id, tenant, lambda provider: provider.newest_rows(probe))
    if isinstance(seen, ReadFailed):
        raise unanswered(seen)
    return asked._replace(seen=seen)


def _probe(row: SignalMapRow) -> SignalProbe:
    return SignalProbe(tuple(milestone.event for milestone in row.plan.milestones), safe_failure(row.plan).marker)
