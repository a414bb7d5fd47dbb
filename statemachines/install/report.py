"""The rules for the content of an implementation report, and its hash (G-061, G-086, G-156)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from statemachines.install.stored import ImplementationReport
from statemachines.kernel.canonical import canonical_payload
from statemachines.kernel.telling import holds_own_secret
from statemachines.onboarding.plan import HOLDS_SECRET, NOT_RELATIVE, FieldIssue, PlanRefused, is_repository_relative


class ProposedReport(NamedTuple):
    """An acceptable report, with its hash."""

    report: ImplementationReport
    sha256: str


def propose_report(report: ImplementationReport) -> ProposedReport:
    """Check a report and hash it. Raises PlanRefused with the names of bad members."""
    issues = list(_issues(report))
    if issues:
        raise PlanRefused(issues)
    return ProposedReport(report, hashlib.sha256(canonical_payload(report)).hexdigest())


def _issues(report: ImplementationReport) -> Iterator[FieldIssue]:
    for i, target in enumerate(report.files):
        if not is_repository_relative(target.file):
            yield FieldIssue(f"files[{i}].file", NOT_RELATIVE)
    texts = [
        (f"files[{i}].{name}", getattr(at, name)) for i, at in enumerate(report.files) for name in ("file", "anchor")
    ]
    texts.append(("summary_md", report.summary_md or ""))
    texts += [(f"tests[{i}].command", test.command) for i, test in enumerate(report.tests)]
    for field, text in texts:
        if holds_own_secret(text):
            yield FieldIssue(field, HOLDS_SECRET)
