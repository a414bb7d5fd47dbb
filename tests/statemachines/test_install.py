"""An install: every edge, every non-edge, replay, repetition, and one event for each change of a verdict (G-156)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines import install
from statemachines.install import (
    ImplementationReport,
    InstallStateConflict,
    MapInForce,
    ProposedReport,
    RunTest,
    Status,
    propose_report,
)
from statemachines.onboarding.lifecycle import PlanHashMismatch
from statemachines.onboarding.plan import PlanRefused, SourceTarget
from tests.statemachines.tables import History, check_released, check_table
from tests.support.plans import make_snapshot

S = Status
SHA = {1: "1" * 64, 2: "2" * 64}
SECRET = "service_sk_" + "a" * 43


def report_on(sha: str, summary: str = "Done.") -> ProposedReport:
    files = (SourceTarget("src/pay.py", "payments.add(payment)"),)
    return propose_report(
        ImplementationReport(
            plan_sha256=sha,
            source_snapshot=make_snapshot(),
            files=files,
            summary_md=summary,
            tests=(RunTest("pytest", passed=True),),
        )
    )


REPORT = report_on(SHA[1])
DRAFTED = install.InstallPlanDrafted(5)
REPORTED = install.InstallReported(1, REPORT.report, REPORT.sha256, 6)
VERIFIED = install.InstallVerified(1, 7)
BLOCKED = install.InstallBlocked(1, 7)


def test_an_install_moves_along_the_edges_only() -> None:
    drafted, reported, verified, blocked = (event.TOPIC for event in (DRAFTED, REPORTED, VERIFIED, BLOCKED))
    check_table(
        install.MACHINE,
        [
            (drafted, S.ABSENT, S.PLAN_DRAFTED),
            *((reported, status, S.IMPLEMENTED) for status in S),
            *((verified, status, S.VERIFIED) for status in S),
            *((blocked, status, S.BLOCKED) for status in S),
        ],
        {drafted: DRAFTED, reported: REPORTED, verified: VERIFIED, blocked: BLOCKED},
    )


def test_released_events_keep_their_shape() -> None:
    sha, moment = "0123456789abcdef" * 4, 1_800_000_000
    report = ImplementationReport(
        plan_sha256=sha,
        source_snapshot=make_snapshot("a" * 40, sha),
        files=(SourceTarget("src/pay.py", "payments.add(payment)"),),
        summary_md="The payment is captured after its commit.",
        tests=(RunTest("pytest", passed=True),),
    )
    check_released(
        install.MACHINE,
        [
            install.InstallPlanDrafted(moment),
            install.InstallReported(1, report, sha, moment),
            install.InstallVerified(1, moment),
            install.InstallBlocked(1, moment),
        ],
    )


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"files": (SourceTarget("/etc", "x"), SourceTarget("src\\a", "x"))}, ["files[0].file", "files[1].file"]),
        ({"files": (SourceTarget("a/../b", "x"),)}, ["files[0].file"]),
        ({"files": (SourceTarget("C:/a", "x"),)}, ["files[0].file"]),
        ({"files": (SourceTarget("a", SECRET),)}, ["files[0].anchor"]),
        ({"summary_md": f"It uses {SECRET}."}, ["summary_md"]),
        ({"tests": (RunTest(f"KEY={SECRET} pytest", passed=True),)}, ["tests[0].command"]),
    ],
)
def test_a_bad_report_is_refused_by_name_without_its_text(changes, fields) -> None:
    whole = {
        "plan_sha256": SHA[1],
        "source_snapshot": make_snapshot(),
        "files": (SourceTarget("a", "x"),),
        **changes,
    }
    with pytest.raises(PlanRefused) as refused:
        propose_report(ImplementationReport(**whole))
    assert [fault["field"] for fault in refused.value.details["invalid_fields"]] == fields
    assert SECRET not in str(refused.value.details)


def test_an_older_verdict_never_replaces_a_later_one() -> None:
    state = install.Install(Status.VERIFIED, 1, 1, REPORT.sha256, judged_at=20)
    assert install.decide_verdict(state, 1, 19, ok=False, evidence_source="local") == []
    assert install.decide_verdict(state, 1, 20, ok=False, evidence_source="local") == [install.InstallBlocked(1, 20)]


class InstallMachine(RuleBasedStateMachine):
    """An install against a plain model, beside signal maps that come, change and go."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(install.MACHINE)
        self.now = 1_000
        self.map = 0  # its revision; its plan is one of two
        self.onboarding = False
        self.shown = "project_setup_loaded"
        self.latest: tuple[int, str] | None = None
        self.verdict: tuple[int, bool] | None = None

    @property
    def in_force(self) -> MapInForce | None:
        return MapInForce(self.map, SHA[self.map % 2 + 1]) if self.map else None

    @rule()
    def replace_the_map(self) -> None:
        self.map += 1
        self.shown = "plan_approved"
        self.verdict = None

    @rule()
    def begin_an_onboarding(self) -> None:
        self.onboarding = True

    @rule()
    def draft(self) -> None:
        def decide(state):
            return install.decide_draft(state, self.now, onboarding=self.onboarding)

        if self.onboarding:
            self.history.refuses(decide, InstallStateConflict)
            return
        begun = bool(self.history.events)
        events = self.history.carry_out(decide)
        assert [type(event) for event in events] == ([] if begun else [install.InstallPlanDrafted])
        if events and not self.map:
            self.shown = "plan_drafted"

    @rule(plan=st.sampled_from([1, 2]), summary=st.sampled_from(["One.", "Two."]))
    def report(self, plan: int, summary: str) -> None:
        wish = report_on(SHA[plan], summary)

        def decide(state):
            return install.decide_report(state, wish, self.in_force, self.now)

        if self.in_force is None:
            self.history.refuses(decide, InstallStateConflict)
            return
        if SHA[plan] != self.in_force.plan_sha256:
            self.history.refuses(decide, PlanHashMismatch)
            return
        events = self.history.carry_out(decide)
        if self.latest == (self.map, wish.sha256):
            assert events == []
            return
        assert [type(event) for event in events] == [install.InstallReported]
        self.latest, self.verdict, self.shown = (self.map, wish.sha256), None, "implemented"

    @rule(ok=st.booleans())
    def verify(self, ok: bool) -> None:
        self.now += 1
        ok = ok and self.map > 0

        def decide(state):
            return install.decide_verdict(state, self.map, self.now, ok=ok, evidence_source="local")

        events = self.history.carry_out(decide)
        assert [type(event) for event in events] == (
            [] if self.verdict == (self.map, ok) else [install.InstallVerified if ok else install.InstallBlocked]
        )
        self.verdict, self.shown = (self.map, ok), "verified" if ok else "blocked"

    @invariant()
    def folds(self) -> None:
        self.history.check()
        state = self.history.state
        assert install.shown_state(state.status, state.map_revision, self.map) == self.shown


TestInstall = InstallMachine.TestCase
