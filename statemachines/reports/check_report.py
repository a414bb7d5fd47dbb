"""What a report is held to: the very source of its run, and in each metric the numbers of that source (G-112, G-146).

A hypothesis is a guess and stays one: it has no numbers to hold, so only the columns that it rests on are looked at. A
readiness gap says why nothing can be said; it is all that a report may hold while the sample is too small, or while the
source itself is a gap. Texts are the runner's: no refusal repeats one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from schemas.contracts.playbook import FunnelReviewOutput, HypothesisFinding, MetricFinding, ReadinessGapFinding
from statemachines.kernel.machine import Rejection
from statemachines.reports.source import COLUMN_NAMES, COLUMNS, MEASURES, FunnelPlan, FunnelSource, rows_of, sample_of

TOLERANCE = 1e-6
"""How far a number may be off, counts as well as shares: a tolerance by ratio would let one of a million people go."""

Pair = tuple[float | None, float | None]
"""A prior and a current value of one row."""


class SourceHashMismatch(Rejection):
    """The report names another source, or another period (G-112, R-AUT-50)."""

    code = "source_hash_mismatch"


class InsufficientSample(Rejection):
    """Too few people, or none that anybody knows of, for a metric or a hypothesis (G-112)."""

    code = "insufficient_sample"


class ReportValuesDiffer(Rejection):
    """A finding says something else than the source (G-146)."""

    code = "report_values_differ"


def require_held(plan: FunnelPlan, source: FunnelSource, report: FunnelReviewOutput) -> None:
    """Refuse a report that does not rest on this source. Details name the field, and both values but for texts.

    Raises SourceHashMismatch, InsufficientSample, ReportValuesDiffer.
    """
    named = {"source_hash": source.source_hash, "period_start": plan.period_start, "period_end": plan.period_end}
    for name, expected in named.items():
        if getattr(report, name) != expected:
            raise SourceHashMismatch(
                "The report uses another source.",
                next_action="Read the report source again and report on that.",
                **_both(f"report.{name}", expected, getattr(report, name)),
            )
    _require_sample(plan, source, report)
    pairs = _pairs(source)
    for index, finding in enumerate(report.findings):
        place = f"report.findings[{index}]"
        match finding:
            case MetricFinding():
                _require_columns(f"{place}.source_columns", finding.source_columns)
                _require_values(place, finding, pairs)
            case HypothesisFinding():
                _require_columns(f"{place}.evidence_columns", finding.evidence_columns)


def sample_met(plan: FunnelPlan, source: FunnelSource) -> bool:
    """Whether enough people began in both periods; never when nobody knows."""
    sample = sample_of(source.steps)
    return sample is not None and sample >= plan.minimum_sample_size


def _require_sample(plan: FunnelPlan, source: FunnelSource, report: FunnelReviewOutput) -> None:
    if sample_met(plan, source):
        return
    for index, finding in enumerate(report.findings):
        if not isinstance(finding, ReadinessGapFinding):
            kind = "metric" if isinstance(finding, MetricFinding) else "hypothesis"
            raise InsufficientSample(
                "The sample is too small for a report.",
                next_action="Record a report with readiness gaps only.",
                **_both(f"report.findings[{index}].kind", "readiness_gap", kind),
                sample_size=sample_of(source.steps),
                minimum_sample_size=plan.minimum_sample_size,
            )


def _require_columns(place: str, columns: Sequence[str]) -> None:
    for index, column in enumerate(columns):
        if column not in COLUMN_NAMES:
            _differ(field=f"{place}[{index}]", expected=[known.name for known in COLUMNS])


def _require_values(place: str, finding: MetricFinding, pairs: Sequence[Pair]) -> None:
    """Hold a metric to one row: both values of one measure, and the change between them.

    It may leave out the prior value and the change; without a current value that the source has it says nothing.
    """
    prior, current = finding.prior_value, finding.current_value
    fitting = [pair for pair in pairs if prior is None or _close(prior, pair[0])]
    if not fitting:
        _differ(**_both(f"{place}.prior_value", _known(pair[0] for pair in pairs), prior))
    of_prior = fitting
    fitting = [pair for pair in of_prior if _says(current, pair[1])]
    if not fitting:
        _differ(**_both(f"{place}.current_value", _known(pair[1] for pair in of_prior), current))
    if finding.change is None:
        return
    changes = [] if prior is None or current is None else [c for pair in fitting for c in _changes(*pair)]
    if not any(_close(finding.change, change) for change in changes):
        _differ(**_both(f"{place}.change", _known(changes), finding.change))


def _pairs(source: FunnelSource) -> list[Pair]:
    return [
        (getattr(row, f"prior_{measure}"), getattr(row, f"current_{measure}"))
        for row in rows_of(source.steps)
        for measure in MEASURES
    ]


def _changes(prior: float | None, current: float | None) -> list[float]:
    """The difference of two values, and their ratio where there is one."""
    if prior is None or current is None:
        return []
    return [current - prior, *([current / prior] if prior else [])]


def _says(said: float | None, known: float | None) -> bool:
    """Whether a current value is the known one; null says that there is none."""
    return known is None if said is None else _close(said, known)


def _close(said: float, known: float | None) -> bool:
    return known is not None and math.isclose(said, known, rel_tol=0, abs_tol=TOLERANCE)


def _known(values: Iterable[float | None]) -> list[float]:
    return sorted({value for value in values if value is not None})


def _both(field: str, expected: object, actual: object) -> dict[str, Any]:
    return {"field": field, "expected": expected, "actual": actual}


def _differ(**details: Any) -> NoReturn:
    raise ReportValuesDiffer(
        "A finding of the report contradicts its source.",
        next_action="Copy every value and column of a finding from the report source.",
        **details,
    )
