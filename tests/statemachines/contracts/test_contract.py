"""The contract machine: every edge and non-edge of G-101, If-Match, replays, and repeats that record nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from projections.contracts import AutomationContractRow, fold_contract
from statemachines.contracts.contract import (
    MACHINE,
    AutomationDisabled,
    Contract,
    ContractConflict,
    ContractEnabled,
    ContractNotFound,
    ContractPaused,
    ContractSaved,
    EnableKeyReused,
    EnableWish,
    LastAutomationDisabled,
    ReadinessIncomplete,
    Status,
    authority_of,
    command_of,
    decide_disable,
    decide_enable,
    decide_pause,
    decide_save,
    find_receipt,
    make_etag,
    stream,
)
from statemachines.contracts.documents import Document, Facts, check_contract, make_document
from statemachines.contracts.playbook import assemble_entry, canonical, find_template
from statemachines.contracts.policy import AutomationNotFound
from statemachines.kernel.machine import Event, IfMatchRequired, PreconditionFailed, Recorded, apply, replay
from tests.support import few_or_many
from tests.support.playbook_samples import CASE, REVIEW, assertions_of, bindings_of

PROJECT = "proj_01aaaaaaaaaaaaaaaaaaaaaaaa"
CONTRACT_ID = stream(PROJECT).id
EVENTS = frozenset({"signed_up", "project_created", "checkout_completed"})
READY = Facts(
    proven_by="local",
    approved_events=EVENTS,
    observed_events=EVENTS,
    ci_credential=True,
    runner_credentials=frozenset({"a", "b"}),
)


def entries_of(*automation_ids: str) -> list[dict[str, Any]]:
    entries = []
    for index, automation_id in enumerate(automation_ids):
        playbook = (CASE, REVIEW)[index % 2]
        entries.append(
            assemble_entry(find_template(playbook), bindings_of(playbook, automation_id), assertions_of(playbook))
        )
    return entries


def document(*automation_ids: str) -> Document:
    entries = entries_of(*automation_ids)
    return make_document(entries, check_contract(entries))


BOTH, ONLY = document("a", "b"), document("a")


def run(state: Contract, events: list[Event]) -> Contract:
    for event in events:
        state = apply(MACHINE, state, event)
    return state


def save(state: Contract, doc: Document = BOTH, if_match: str | None = None, now: int = 100) -> list[Event]:
    return decide_save(state, doc, contract_id=CONTRACT_ID, if_match=if_match, saved_by="usr_owner", now=now)


def wish(state: Contract, key: str = "k1", automation_id: str | None = None, **changes: Any) -> EnableWish:
    made = EnableWish(f"enr_{key}", automation_id, state.etag, command_of("key:key_1", key), f"fp-{automation_id}")
    return msgspec.structs.replace(made, **changes)


def enable(
    state: Contract, key: str = "k1", automation_id: str | None = None, facts: Facts = READY, **changes: Any
) -> list[Event]:
    return decide_enable(state, wish(state, key, automation_id, **changes), facts, enabled_by="usr_owner", now=200)


def disable(state: Contract, automation_id: str = "a", if_match: str | None = "current") -> list[Event]:
    tag = state.etag if if_match == "current" else if_match
    return decide_disable(state, automation_id, reason=None, if_match=tag, disabled_by="usr_member", now=300)


def pause(state: Contract) -> list[Event]:
    return decide_pause(state, reason="incident", paused_by="usr_member", now=400)


ABSENT = Contract()
DISABLED = run(ABSENT, save(ABSENT))
ENABLED = run(DISABLED, enable(DISABLED))
PAUSED = run(ENABLED, pause(ENABLED))
STATES = {state.status: state for state in (ABSENT, DISABLED, ENABLED, PAUSED)}

FACTS: list[Event] = [
    ContractSaved(CONTRACT_ID, 2, BOTH.contract_sha256, BOTH.automations, "usr_owner", 1),
    ContractEnabled("enr_1", CONTRACT_ID, BOTH.contract_sha256, 2, '"x"', '"y"', ["a"], "usr_owner", 1, "c", "r"),
    AutomationDisabled("a", None, "usr_member", 1),
    LastAutomationDisabled("a", None, "usr_member", 1),
    ContractPaused(None, "usr_member", 1),
]
EDGES = {
    (Status.ABSENT, ContractSaved): Status.DISABLED,
    (Status.DISABLED, ContractSaved): Status.DISABLED,
    (Status.ENABLED, ContractSaved): Status.DISABLED,
    (Status.PAUSED, ContractSaved): Status.DISABLED,
    (Status.DISABLED, ContractEnabled): Status.ENABLED,
    (Status.ENABLED, ContractEnabled): Status.ENABLED,
    (Status.PAUSED, ContractEnabled): Status.ENABLED,
    (Status.ENABLED, AutomationDisabled): Status.ENABLED,
    (Status.ENABLED, LastAutomationDisabled): Status.DISABLED,
    (Status.DISABLED, ContractPaused): Status.PAUSED,
    (Status.ENABLED, ContractPaused): Status.PAUSED,
}


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("event", FACTS, ids=lambda event: type(event).__name__)
def test_every_edge_is_taken_and_every_other_refused(status: Status, event: Event) -> None:
    """The table allows exactly the edges of G-101; what it refuses leaves the state as it was."""
    state = STATES[status]
    expected = EDGES.get((status, type(event)))
    if expected is None:
        with pytest.raises(ContractConflict):
            apply(MACHINE, state, event)
        return
    moved = apply(MACHINE, state, event)
    assert moved.status is expected
    assert moved.revision == state.revision + 1


# ---- PUT


def test_first_save_needs_no_tag_and_takes_none() -> None:
    """Nothing stored: without If-Match revision 1, with any If-Match 412."""
    [event] = save(ABSENT)
    assert isinstance(event, ContractSaved)
    assert event.automations == BOTH.automations
    assert (DISABLED.status, DISABLED.revision, DISABLED.etag) == (Status.DISABLED, 1, f'"ac:{CONTRACT_ID}:1"')
    with pytest.raises(PreconditionFailed) as refusal:
        save(ABSENT, if_match='"ac:x:1"')
    assert refusal.value.details == {"current_etag": None}


@pytest.mark.parametrize("state", [DISABLED, ENABLED, PAUSED], ids=lambda s: s.status.value)
def test_replacing_needs_the_exact_tag(state: Contract) -> None:
    """No tag 428, another tag 412 that names the current one, the current tag replaces and turns all off (R-AUT-03)."""
    with pytest.raises(IfMatchRequired):
        save(state)
    for tag in ('""', make_etag(CONTRACT_ID, state.revision + 1), make_etag(CONTRACT_ID, 0), "W/" + state.etag):
        with pytest.raises(PreconditionFailed) as refusal:
            save(state, if_match=tag)
        assert refusal.value.details == {"current_etag": state.etag}
    moved = run(state, save(state, ONLY, state.etag))
    assert (moved.status, moved.revision) == (Status.DISABLED, state.revision + 1)
    assert [(a.saved.automation_id, a.enabled) for a in moved.automations] == [("a", False)]


# ---- enable


@pytest.mark.parametrize("state", [DISABLED, ENABLED, PAUSED], ids=lambda s: s.status.value)
def test_enable_turns_the_targets_on(state: Contract) -> None:
    """From disabled, enabled and paused; the receipt says what was and what is (G-103)."""
    moved = run(state, enable(state, key="fresh", automation_id="b"))
    assert (moved.status, moved.revision) == (Status.ENABLED, state.revision + 1)
    assert moved.find("b") is not None
    assert moved.find("b").enabled  # type: ignore[union-attr]
    kept = find_receipt(moved, command_of("key:key_1", "fresh"))
    assert kept is not None
    assert kept.receipt.automation_ids == ["b"]
    assert (kept.receipt.previous_etag, kept.receipt.etag) == (state.etag, moved.etag)
    assert kept.receipt.contract_revision == moved.revision
    assert kept.receipt.contract_sha256 == state.contract_sha256


def test_a_subset_leaves_the_others_off() -> None:
    """A pause is lifted for exactly the automation that was enabled again (R-AUT-08)."""
    moved = run(PAUSED, enable(PAUSED, key="k2", automation_id="a"))
    assert [(a.saved.automation_id, a.enabled) for a in moved.automations] == [("a", True), ("b", False)]


def test_a_generation_is_new_only_when_turned_on() -> None:
    """What was on keeps its generation, what comes back on gets a new one."""
    again = run(ENABLED, enable(ENABLED, key="k2"))
    assert [a.generation for a in again.automations] == [a.generation for a in ENABLED.automations] == [2, 2]
    back = run(PAUSED, enable(PAUSED, key="k2"))
    assert [a.generation for a in back.automations] == [4, 4]


@pytest.mark.parametrize("state", [DISABLED, ENABLED, PAUSED], ids=lambda s: s.status.value)
def test_enable_is_fenced_and_named(state: Contract) -> None:
    """An unknown automation 404 before a stale tag 412, readiness 409 last."""
    for tag in (None, '""', make_etag(CONTRACT_ID, state.revision - 1)):
        with pytest.raises(PreconditionFailed):
            enable(state, key="k9", if_match=tag, facts=Facts())
        with pytest.raises(AutomationNotFound):
            enable(state, key="k9", automation_id="zz", if_match=tag)
    with pytest.raises(ReadinessIncomplete) as refusal:
        enable(state, key="k9", automation_id="b", facts=Facts())
    gaps = refusal.value.details["gaps"]
    assert {gap["automation_id"] for gap in gaps} == {"b"}
    assert "signal_map_not_verified" in {gap["code"] for gap in gaps}


def test_a_gap_of_one_target_keeps_all_off() -> None:
    """Enabling all needs all ready; naming the ready one alone works."""
    facts = msgspec.structs.replace(READY, runner_credentials=frozenset({"a"}))
    with pytest.raises(ReadinessIncomplete):
        enable(DISABLED, facts=facts)
    assert enable(DISABLED, automation_id="a", facts=facts)


def test_a_replayed_enable_records_nothing_whatever_happened_since() -> None:
    """The same key finds its receipt after pause, replacement and a stale tag, and turns nothing on (R-AUT-05)."""
    replaced = run(PAUSED, save(PAUSED, ONLY, PAUSED.etag))
    for state in (ENABLED, PAUSED, replaced):
        for tag in (DISABLED.etag, state.etag):
            assert enable(state, if_match=tag, facts=Facts()) == []
        kept = find_receipt(state, command_of("key:key_1", "k1"))
        assert kept is not None
        assert kept.receipt.previous_etag == DISABLED.etag
    with pytest.raises(EnableKeyReused):
        enable(PAUSED, automation_id="a")


def test_another_principal_does_not_share_the_key() -> None:
    """A key belongs to who sent it: for another owner it is a fresh command."""
    assert command_of("key:key_1", "k") != command_of("key:key_2", "k")
    with pytest.raises(PreconditionFailed):
        enable(PAUSED, command=command_of("key:key_2", "k1"), if_match=DISABLED.etag)


# ---- disable and pause


def test_disable_one_by_one() -> None:
    """The first leaves the contract enabled, the last one disabled; each bumps the revision (R-AUT-07)."""
    one = run(ENABLED, disable(ENABLED, "a"))
    assert (one.status, one.revision) == (Status.ENABLED, ENABLED.revision + 1)
    none = run(one, disable(one, "b"))
    assert (none.status, none.revision) == (Status.DISABLED, ENABLED.revision + 2)
    assert disable(none, "a") == []
    assert disable(one, "a") == []
    assert disable(PAUSED, "a") == []
    for tag in (None, '""', DISABLED.etag):
        with pytest.raises(PreconditionFailed):
            disable(ENABLED, if_match=tag)
        with pytest.raises(AutomationNotFound):
            disable(ENABLED, "zz", if_match=tag)


def test_pause_needs_no_tag_and_repeats() -> None:
    """Everything is off; a second pause records nothing (R-AUT-06)."""
    for state in (DISABLED, ENABLED):
        moved = run(state, pause(state))
        assert (moved.status, moved.revision) == (Status.PAUSED, state.revision + 1)
        assert not any(a.enabled for a in moved.automations)
        assert pause(moved) == []


def test_nothing_saved_is_not_found() -> None:
    """Enable, disable and pause of an absent contract are 404, with whatever tag."""
    for attempt in (lambda: enable(ABSENT), lambda: disable(ABSENT), lambda: pause(ABSENT)):
        with pytest.raises(ContractNotFound):
            attempt()


def test_receipts_are_bounded() -> None:
    """The newest hundred receipts stay in the state; older ones are in the idempotency records."""
    state = ENABLED
    for number in range(120):
        state = run(state, enable(state, key=f"again-{number}"))
    assert len(state.receipts) == 100
    assert state.receipts[-1].receipt.receipt_id == "enr_again-119"


def test_authority_follows_the_contract() -> None:
    """Execution sees enabled, paused and the generation; an unknown automation has no policy."""
    on, off, unknown = authority_of(ENABLED, "a"), authority_of(PAUSED, "a"), authority_of(ENABLED, "zz")
    assert (on.enabled, on.paused, on.generation, on.contract_revision) == (True, False, 2, 2)
    assert on.upholds(2)
    assert (off.enabled, off.paused) == (False, True)
    assert not off.upholds(2)
    assert unknown.policy is None
    assert not authority_of(ABSENT, "a").enabled


# ---- any history


class AnyHistory(RuleBasedStateMachine):
    """Random commands against the machine and, beside it, the simplest possible model of the contract."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.state = Contract()
        self.row: AutomationContractRow | None = None
        self.on: set[str] = set()
        self.ids: tuple[str, ...] = ()
        self.paused = False
        self.keys = 0
        self.now = 1000

    def do(self, decide: Any) -> int:
        """Run a decision, record what it says, and check that saying it again records nothing."""
        self.now += 1
        events = decide(self.state)
        for event in events:
            self.state = apply(MACHINE, self.state, event)
            self.events.append(event)
            recorded = Recorded(CONTRACT_ID, len(self.events), event, PROJECT, self.now, "key:key_1")
            self.row = fold_contract(self.row, recorded)
        return len(events)

    @rule(doc=st.sampled_from([BOTH, ONLY]))
    def put(self, doc: Document) -> None:
        tag = self.state.etag if self.events else None
        assert self.do(lambda s: save(s, doc, tag, self.now)) == 1
        self.ids = tuple(a.automation_id for a in doc.automations)
        self.on, self.paused = set(), False
        with pytest.raises((PreconditionFailed, IfMatchRequired)):
            save(self.state, doc, tag)

    @precondition(lambda self: self.events)
    @rule(pick=st.integers(0, 2))
    def turn_on(self, pick: int) -> None:
        target = (*self.ids, None, None)[pick]
        self.keys += 1
        key, tag = f"key-{self.keys}", self.state.etag
        assert self.do(lambda s: enable(s, key, target)) == 1
        self.on |= set(self.ids) if target is None else {target}
        self.paused = False
        assert self.do(lambda s: enable(s, key, target, if_match=tag)) == 0

    @precondition(lambda self: self.events)
    @rule(pick=st.integers(0, 1))
    def turn_off(self, pick: int) -> None:
        target = self.ids[pick % len(self.ids)]
        assert self.do(lambda s: disable(s, target)) == (1 if target in self.on else 0)
        self.on.discard(target)
        assert self.do(lambda s: disable(s, target)) == 0

    @precondition(lambda self: self.events)
    @rule()
    def stop(self) -> None:
        assert self.do(pause) == (0 if self.paused else 1)
        self.on, self.paused = set(), True
        assert self.do(pause) == 0

    @rule(tag=st.sampled_from(['""', '"ac:other:1"', make_etag(CONTRACT_ID, 0), make_etag(CONTRACT_ID, 10**6)]))
    def come_with_a_wrong_tag(self, tag: str) -> None:
        before = self.state
        for attempt in (
            lambda: save(self.state, BOTH, tag),
            lambda: enable(self.state, "wrong", if_match=tag),
            lambda: disable(self.state, self.ids[0] if self.ids else "a", if_match=tag),
        ):
            with pytest.raises((PreconditionFailed, ContractNotFound)):
                attempt()
        assert self.state is before

    @precondition(lambda self: self.keys)
    @rule(pick=st.integers(1, 10**6))
    def replay_an_enable(self, pick: int) -> None:
        number = pick % self.keys + 1
        kept = find_receipt(self.state, command_of("key:key_1", f"key-{number}"))
        if kept is not None:
            sent = wish(self.state, f"key-{number}", if_match=kept.receipt.previous_etag, request=kept.request)
            assert decide_enable(self.state, sent, Facts(), enabled_by="usr_owner", now=self.now) == []

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert {a.saved.automation_id for a in self.state.automations if a.enabled} == self.on
        assert self.state.revision == len(self.events)
        expected = Status.PAUSED if self.paused else Status.ENABLED if self.on else Status.DISABLED
        assert self.state.status is (expected if self.events else Status.ABSENT)

    @invariant()
    def replays_to_the_same_state(self) -> None:
        assert replay(MACHINE, self.events) == self.state

    @invariant()
    def survives_storage(self) -> None:
        for event in self.events[-1:]:
            assert msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event

    @invariant()
    def row_shows_the_state(self) -> None:
        if self.row is None:
            assert not self.events
            return
        assert self.row.etag == self.state.etag
        assert self.row.status == self.state.status.value
        assert {a.saved.automation_id for a in self.row.automations if a.enabled} == self.on
        assert (self.row.paused_at is not None) is self.paused
        for automation in self.row.automations:
            assert (automation.disabled_at is None) or not automation.enabled
            assert (automation.disabled_at is None) is (automation.disabled_reason is None)
        encoded = msgspec.json.decode(msgspec.json.encode(self.row), type=AutomationContractRow)
        assert encoded == self.row


TestAnyHistory = few_or_many(20, 80, stateful_step_count=25)(AnyHistory)


# ---- stored shapes


# The hash that error-to-draft-pr@4.0.0 had before it was published: stored contracts keep what they were saved with.
HASH_AS_STORED = "e6462254fc86ab6ff56b0580daf7a0454cb78dd41e9b16304b9f50f875b19b29"


def as_stored() -> Document:
    """The document of the stored events: that of the playbook as it was when they were recorded."""
    entries = entries_of("a", "b")
    entries[0]["playbook"]["template_hash"] = HASH_AS_STORED
    made = make_document(entries, check_contract(entries_of("a", "b")))
    first, second = made.automations
    first = msgspec.structs.replace(first, template_hash=HASH_AS_STORED)
    return made._replace(automations=[first, second])


def samples() -> dict[str, Event]:
    [saved] = save(ABSENT, as_stored())
    disabled = run(ABSENT, [saved])
    [enabled], [paused] = enable(disabled), pause(run(disabled, enable(disabled)))
    return {
        event.TOPIC: event
        for event in (
            saved,
            enabled,
            AutomationDisabled("a", "no longer needed", "usr_member", 300),
            LastAutomationDisabled("b", None, "usr_member", 300),
            paused,
        )
    }


@pytest.mark.parametrize("topic", sorted(samples()))
def test_stored_events_stay_readable(topic: str) -> None:
    """The payload released under a topic reads as the same event, and is written the same way."""
    event = samples()[topic]
    golden = (Path(__file__).parents[2] / "golden" / "events" / f"{topic}.json").read_bytes()
    assert msgspec.json.decode(golden, type=type(event)) == event
    assert canonical(msgspec.to_builtins(event)) == golden
