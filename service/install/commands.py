"""What may be done with an install: draft, report, record a verdict (R-INST-05 to R-INST-09, G-156).

Each decision locks the streams of install, signal map and onboarding together, so it never rests on a map that is gone.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.install.flow import INSTALLS, InstallRow
from projections.onboarding.signal_map import SIGNAL_MAPS, SignalMapRow
from service.eventstore.declare.commands import Unit
from service.eventstore.declare.intents import Intent
from service.install.verifying import InstallFindings, failed_gates
from statemachines.install import flow as installs
from statemachines.install.flow import MapInForce
from statemachines.install.report import ProposedReport
from statemachines.kernel.moved import Moved
from statemachines.onboarding import lifecycle as onboardings
from statemachines.onboarding import signal_map as signal_maps


class RecordedReport(NamedTuple):
    """An install after a report on the signal map of its project, and whether it was its first report."""

    row: InstallRow
    signal_map: SignalMapRow
    first: bool


def draft(project_id: str) -> Intent[None]:
    """Note that a plan was drafted. Raises InstallStateConflict beside an onboarding."""
    stream, onboarding = installs.stream(project_id), onboardings.stream(project_id)

    def decide(unit: Unit) -> None:
        begun = unit.state(onboarding).status is not onboardings.Status.ABSENT
        unit.append(stream, installs.decide_draft(unit.state(stream), unit.now, onboarding=begun))

    return Intent([stream], decide, reads=[onboarding])


def report(project_id: str, wish: ProposedReport) -> Intent[RecordedReport]:
    """Record an implementation report. Raises InstallStateConflict and PlanHashMismatch."""
    stream, of_map = installs.stream(project_id), signal_maps.stream(project_id)

    def decide(unit: Unit) -> RecordedReport:
        before, signal_map = unit.row(INSTALLS, *stream.name), unit.row(SIGNAL_MAPS, *of_map.name)
        in_force = None if signal_map is None else MapInForce(signal_map.revision, signal_map.plan_sha256)
        unit.append(stream, installs.decide_report(unit.state(stream), wish, in_force, unit.now))
        row = unit.row(INSTALLS, *stream.name)
        assert row is not None, "a report leaves a row"
        assert signal_map is not None, "without a map there is no report"
        return RecordedReport(row, signal_map, first=before is None or before.reports == 0)

    return Intent([stream], decide, reads=[of_map])


def record_verdict(project_id: str, findings: InstallFindings) -> Intent[InstallFindings]:
    """Record the verdict of findings if it changes. Returns them with the install as it stands then.

    Raises Moved when the signal map is another one by now.
    """
    stream, of_map = installs.stream(project_id), signal_maps.stream(project_id)

    def decide(unit: Unit) -> InstallFindings:
        signal_map = unit.row(SIGNAL_MAPS, *of_map.name)
        revision = installs.NO_MAP if signal_map is None else signal_map.revision
        if revision != findings.asked.map_revision:
            raise Moved
        ok = not failed_gates(findings.beside(unit.row(INSTALLS, *stream.name)))
        source = findings.asked.all_seen.source
        events = installs.decide_verdict(unit.state(stream), revision, findings.at, ok=ok, evidence_source=source)
        unit.append(stream, events)
        return findings.beside(unit.row(INSTALLS, *stream.name))

    return Intent([stream], decide, reads=[of_map])
