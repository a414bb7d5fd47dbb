"""The onboarding machine against the table of G-080: every step in every status, long random walks, replay."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis.stateful import invariant

from projections.onboarding import OnboardingRow, fold_onboarding
from service.testing import onboarding_model as model
from service.testing.walks import OnboardingWalk, Shown, agree
from statemachines.kernel.machine import (
    Event,
    IfMatchRequired,
    PreconditionFailed,
    Recorded,
    Rejection,
    apply,
    permits,
    replay,
)
from statemachines.onboarding.lifecycle import (
    MACHINE,
    SESSION_SECONDS,
    Onboarding,
    OnboardingApproved,
    OnboardingConflict,
    OnboardingPlanned,
    OnboardingProofStarted,
    OnboardingVerified,
    ProofStart,
    Status,
    decide_approve,
    decide_proof,
    decide_replace,
    decide_start,
    decide_verify,
    make_etag,
    stream,
)
from statemachines.onboarding.plan import Receipt, hash_plan, propose
from statemachines.onboarding.proof import (
    DeploySighting,
    ErrorSighting,
    EventSighting,
    ProofEvidence,
    ProofSession,
    assess,
)
from tests.schemas.test_onboarding import RECEIPT
from tests.statemachines.tables import check_released
from tests.support import few_or_many
from tests.support.plans import history_body, make_plan, make_snapshot

PROJECT = "proj_00000000000000000000000001"
STREAM = stream(PROJECT).id
NOW = 1_700_000_000
WISHES = {name: propose(make_plan(name)) for name in model.PLANS}


def test_released_events_keep_their_shape() -> None:
    """What was once written decodes to the same event, and is written the same way today."""
    plan = make_plan(historical_evidence=history_body())
    sha256 = hash_plan(plan)
    session = ("ps_00000000000000000000000001", make_snapshot(), "1" * 64, "2" * 64, NOW + 2, NOW + 7202)
    check_released(
        MACHINE,
        [
            OnboardingPlanned("onb_00000000000000000000000001", plan, sha256, NOW),
            OnboardingApproved(sha256, NOW + 1),
            OnboardingProofStarted(*session),
            OnboardingVerified(msgspec.convert(RECEIPT, Receipt)),
        ],
    )


def everything(session: ProofSession) -> ProofEvidence:
    """Return evidence of a complete exercise under a session."""
    marker, at = (session.runtime_marker_sha256,), session.started_at
    plan = WISHES[model.PLANS[0]].plan
    return ProofEvidence(
        events=[EventSighting(m.event, at, marker, dict.fromkeys(m.properties, 1)) for m in plan.milestones],
        errors=[ErrorSighting("payment_declined", at, marker, {"decline_code": "x"}, {}, {})],
        deploys=[
            DeploySighting(
                "production", session.implementation_source_snapshot.git_head_sha, True, session.ci_marker_sha256, at
            )
        ],
        ci_credential_live=True,
    )


NOTHING = ProofEvidence(events=(), errors=(), deploys=(), ci_credential_live=True)


class PureDriver:
    """Carries out the model's steps on the pure machine."""

    def __init__(self) -> None:
        self.state: Onboarding = MACHINE.initial
        self.history: list[Event] = []
        self.now = NOW
        self.sessions = 0
        self.exercised: set[str] = set()

    def tag(self, tag: model.SentTag) -> str | None:
        revision = self.state.revision
        return {
            model.SentTag.NONE: None,
            model.SentTag.CURRENT: self.state.etag,
            model.SentTag.PREVIOUS: make_etag(STREAM, revision - 1),
            model.SentTag.OLDER: make_etag(STREAM, revision - 2),
            model.SentTag.FUTURE: make_etag(STREAM, revision + 1),
            model.SentTag.FOREIGN: make_etag("onb_other", revision),
        }[tag]

    def hash(self, hash_: model.SentHash) -> str:
        return self.state.plan_sha256 if hash_ is model.SentHash.CURRENT else "0" * 64

    def perform(self, step: model.Step) -> model.StepAnswer:
        """Decide, append as the store does, and say what HTTP would answer."""
        created = self.state.status is Status.ABSENT
        ok: bool | None = None
        try:
            match step:
                case model.Start(plan, tag):
                    wish, etag = WISHES[plan], self.tag(tag)
                    events = decide_start(self.state, wish, id=STREAM, if_match=etag, now=self.now)
                case model.Approve(hash_, tag):
                    events = decide_approve(self.state, self.hash(hash_), if_match=self.tag(tag), now=self.now)
                case model.Replace(hash_, plan, tag):
                    events = decide_replace(
                        self.state, self.hash(hash_), WISHES[plan], if_match=self.tag(tag), now=self.now
                    )
                case model.Proof(sha, tag):
                    self.sessions += 1
                    marks = f"{self.sessions:064x}", f"{self.sessions + 10_000:064x}"
                    wish_proof = ProofStart(f"ps_{self.sessions:06}", make_snapshot(sha), *marks)
                    events = decide_proof(self.state, wish_proof, if_match=self.tag(tag), now=self.now)
                case model.Verify(tag):
                    session = self.state.session
                    findings = None
                    if session is not None and self.state.plan is not None:
                        proven = session.proof_session_id in self.exercised
                        findings = assess(self.state.plan, session, everything(session) if proven else NOTHING)
                    verdict = decide_verify(self.state, findings, if_match=self.tag(tag), now=self.now)
                    events, ok = verdict.events, verdict.ok
        except Rejection as refused:
            status = {"precondition_failed": 412, "if_match_required": 428, "onboarding_not_started": 404}
            return model.StepAnswer(status.get(refused.code, 409), refused.code)
        for event in events:
            self.state = apply(MACHINE, self.state, event)
        self.history += events
        fresh = (isinstance(step, model.Start) and created) or isinstance(step, model.Proof)
        return model.StepAnswer(201 if fresh else 200, ok=ok)

    def exercise(self) -> None:
        assert self.state.session is not None
        self.exercised.add(self.state.session.proof_session_id)

    def expire(self) -> None:
        assert self.state.session is not None
        self.now = self.state.session.expires_at

    def show(self) -> Shown:
        status = {"absent": "none"}.get(self.state.status.value, self.state.status.value)
        plan = self.state.plan
        return Shown(status, self.state.revision, "" if plan is None else plan.business_question)


def agrees(driver: PureDriver, expected: model.OnboardingModel) -> None:
    """Assert that machine and model show the same."""
    agree(driver, expected)
    state = driver.state
    if expected.status != "none":
        assert state.plan_sha256 == WISHES[expected.plan].sha256
    assert (state.receipt is not None) == (expected.status == "verified")
    assert (state.session is not None) == (expected.status in {"proving", "verified"})


def reach(*steps: model.Step | model.Exercise | model.Expire) -> tuple[PureDriver, model.OnboardingModel]:
    driver, expected = PureDriver(), model.OnboardingModel()
    for step in steps:
        if isinstance(step, model.Exercise):
            driver.exercise()
            expected = replace(expected, proven=True)
        elif isinstance(step, model.Expire):
            driver.expire()
            expected = replace(expected, expired=True)
        else:
            expected, answer = expected.after(step)
            assert driver.perform(step) == answer
    return driver, expected


CURRENT, NONE = model.SentTag.CURRENT, model.SentTag.NONE
START = (model.Start(model.PLANS[0], NONE),)
REPLACED = (*START, model.Start(model.PLANS[1], CURRENT))
APPROVED = (*REPLACED, model.Approve(model.SentHash.CURRENT, CURRENT))
PROVING = (*APPROVED, model.Proof(model.SNAPSHOTS[0], CURRENT))
SITUATIONS = {
    "none": (),
    "planned first": START,
    "planned again": REPLACED,
    "approved": APPROVED,
    "proving": PROVING,
    "proving twice": (*PROVING, model.Proof(model.SNAPSHOTS[0], CURRENT)),
    "proven": (*PROVING, model.Exercise()),
    "proven too late": (*PROVING, model.Exercise(), model.Expire()),
    "proven under the former pair": (*PROVING, model.Exercise(), model.Proof(model.SNAPSHOTS[0], CURRENT)),
    "replanned from approved": (*APPROVED, model.Start(model.PLANS[1], CURRENT)),
    "replanned from proving": (*PROVING, model.Start(model.PLANS[1], CURRENT)),
    "verified": (*PROVING, model.Exercise(), model.Verify(CURRENT)),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_step_in_every_situation(situation: str) -> None:
    """Each step is answered as the table says; a refused one, and one whose wish is true, leaves no trace."""
    _, expected = reach(*SITUATIONS[situation])
    for step in expected.steps():
        driver, expected = reach(*SITUATIONS[situation])
        before = driver.state, len(driver.history)
        after, answer = expected.after(step)
        assert driver.perform(step) == answer, step
        agrees(driver, after)
        if after == expected:
            assert (driver.state, len(driver.history)) == before, step
        else:
            assert len(driver.history) == before[1] + 1


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_table_is_law_before_an_append(situation: str) -> None:
    """An event without a row for the status is refused whatever decided it, and the state stays as it is."""
    driver, _ = reach(*SITUATIONS[situation])
    done, _ = reach(*SITUATIONS["verified"])
    allowed = {
        Status.ABSENT: {OnboardingPlanned},
        Status.PLANNED: {OnboardingPlanned, OnboardingApproved},
        Status.APPROVED: {OnboardingPlanned, OnboardingProofStarted},
        Status.PROVING: {OnboardingPlanned, OnboardingProofStarted, OnboardingVerified},
        Status.VERIFIED: set(),
    }[driver.state.status]
    for event in {type(event): event for event in done.history}.values():
        assert permits(MACHINE, driver.state, event) == (type(event) in allowed)
        if type(event) not in allowed:
            before = driver.state
            with pytest.raises(OnboardingConflict) as refused:
                apply(MACHINE, driver.state, event)
            assert set(refused.value.details["allowed_next"]) == {kind.TOPIC for kind in allowed}
            assert driver.state is before


class PureWalk(OnboardingWalk):
    """Random walks over all steps: machine and model agree all the way."""

    driver: PureDriver

    def begin(self) -> PureDriver:
        return PureDriver()

    @invariant()
    def agrees(self) -> None:
        agrees(self.driver, self.model)

    @invariant()
    def replays(self) -> None:
        """The history gives the state, and the row shows what the state is."""
        state = replay(MACHINE, self.driver.history)
        assert state == self.driver.state
        row: OnboardingRow | None = None
        for revision, event in enumerate(self.driver.history, 1):
            row = fold_onboarding(row, Recorded(STREAM, revision, event, PROJECT, NOW, "key:key_1"))
        if row is None:
            assert state == MACHINE.initial
            return
        assert (row.status, row.etag, row.state_revision) == (state.status.value, state.etag, state.revision)
        assert (row.plan, row.plan_sha256, row.session, row.receipt) == (
            state.plan,
            state.plan_sha256,
            state.session,
            state.receipt,
        )
        assert (row.approved_at is not None) == (state.status in {Status.APPROVED, Status.PROVING, Status.VERIFIED})

    @invariant()
    def survives_storage(self) -> None:
        """Every event is read back as it was written."""
        for event in self.driver.history[-1:]:
            assert msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event


TestPureWalk = few_or_many(30, 150, stateful_step_count=40)(PureWalk)


def test_one_stream_a_project() -> None:
    """All rivals for a project's first plan name one stream, other projects another (R-ONB-58)."""
    assert stream(PROJECT).id == STREAM != stream("proj_other").id
    assert STREAM.startswith("onb_")
    assert len(STREAM) == len("onb_") + 26


def test_a_session_lasts_two_hours_and_its_end_is_outside() -> None:
    """The session opens at the command's time and is over when its end is reached (G-084)."""
    driver, _ = reach(*PROVING)
    session = driver.state.session
    assert session is not None
    assert (session.started_at, session.expires_at) == (NOW, NOW + SESSION_SECONDS)
    assert SESSION_SECONDS == 7200
    assert [session.covers(NOW + s) for s in (-1, 0, 7199, 7200)] == [False, True, True, False]


def test_a_verify_after_the_end_asks_for_all_of_it_again() -> None:
    """Expiry leaves the status; every part reports the dead session, whatever had been seen (G-084)."""
    driver, _ = reach(*SITUATIONS["proven too late"])
    session = driver.state.session
    assert session is not None
    findings = assess(WISHES[model.PLANS[1]].plan, session, everything(session))
    assert findings.complete
    verdict = decide_verify(driver.state, findings, if_match=driver.state.etag, now=driver.now)
    assert not verdict.ok
    assert verdict.events == []
    remaining = msgspec.to_builtins(verdict.remaining)
    assert remaining["analytics"]["blockers"] == ("proof_session_not_active",)
    assert [m["milestone_index"] for m in remaining["analytics"]["milestones"]] == [0, 1]
    assert remaining["safe_error"]["marker_missing"]
    assert remaining["safe_error"]["blockers"] == ("proof_session_not_active",)
    assert remaining["deploy"] == {"environment": "production", "blockers": ("proof_session_not_active",)}


def test_findings_of_another_session_are_refused() -> None:
    """What was read for a replaced session proves nothing for the present one, whatever the tag says."""
    driver, _ = reach(*SITUATIONS["proven"])
    former = driver.state.session
    plan = driver.state.plan
    assert former is not None
    assert plan is not None
    driver.perform(model.Proof(model.SNAPSHOTS[0], CURRENT))
    for findings in (None, assess(plan, former, everything(former))):
        with pytest.raises(PreconditionFailed):
            decide_verify(driver.state, findings, if_match=driver.state.etag, now=NOW)


def test_refusals_say_where_the_onboarding_is() -> None:
    """A stale or missing tag is told the current one; a conflict names what is possible (R-ERR-11)."""
    driver, _ = reach(*REPLACED)
    wish = WISHES[model.PLANS[2]]
    with pytest.raises(PreconditionFailed) as stale:
        decide_start(driver.state, wish, id=STREAM, if_match='"onb:x:9"', now=NOW)
    assert stale.value.details == {"current_etag": driver.state.etag}
    with pytest.raises(IfMatchRequired) as missing:
        decide_start(driver.state, wish, id=STREAM, if_match=None, now=NOW)
    assert missing.value.details == {"current_etag": driver.state.etag}
    with pytest.raises(OnboardingConflict) as conflict:
        decide_verify(driver.state, None, if_match=driver.state.etag, now=NOW)
    assert conflict.value.details == {
        "status": "planned",
        "allowed_next": ["onboarding.approved.v1", "onboarding.planned.v1"],
    }


def test_a_replaced_plan_takes_its_proof_with_it() -> None:
    """After a new start neither session nor markers of the old plan are left (G-080)."""
    driver, _ = reach(*SITUATIONS["replanned from proving"])
    assert driver.state.session is None
    row: OnboardingRow | None = None
    for revision, event in enumerate(driver.history, 1):
        row = fold_onboarding(row, Recorded(STREAM, revision, event, PROJECT, NOW, "key:key_1"))
    assert row is not None
    assert row.session is None
    assert (row.runtime_marker_sha256, row.ci_marker_sha256, row.approved_at) == (None, None, None)
