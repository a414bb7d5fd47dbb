"""A back-test comes to what the service came to: the same days, the same looks, decision by decision, byte for byte."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.runs import DecisionRow
from service.eventstore.declare.commands import Answer, Command, Origin, Unit
from service.eventstore.store import EventStore
from service.runs.backtesting import Backtest, contract_row
from service.runs.looking import outcome_of
from service.runs.past_facts import Unknown, read_past
from statemachines.cases import case as cases
from statemachines.contracts import contract as contracts
from statemachines.contracts.contract import EnableWish, command_of
from statemachines.contracts.documents import Document, Facts, check_contract, make_document
from statemachines.contracts.playbook import assemble_entry, find_template
from statemachines.contracts.policy import Authority, CaseTrigger, Limits, Policy, Thresholds
from statemachines.kernel.machine import Event, Stream
from statemachines.runs import lease as leases
from statemachines.runs import receipt as receipts
from statemachines.runs.claim import Claim
from statemachines.runs.lease import Lease
from statemachines.runs.materiality import CaseFacts
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.run import Run
from statemachines.runs.steps import offer
from statemachines.runs.steps.offer import Chain
from tests.support.automation_world import EVENTS
from tests.support.ingest import PROJECT, Sql, log_item, make_public, public_sender, running, send
from tests.support.loop.contracts import READY, contract_of
from tests.support.playbook_samples import REVIEW, assertions_of, bindings_of
from tests.support.sweeping import make_sweep

HOUR, DAY = 3600, 86400
READY_FOR_REVIEW = Facts(
    proven_by="local",
    approved_events=frozenset(EVENTS),
    observed_events=frozenset(EVENTS),
    ci_credential=True,
    runner_credentials=frozenset({"review"}),
)
BEGAN = 1_900_000_000
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.release) for seed in range(1, 3))]
"""One history in `make test`, more before a release."""
ACCEPTS = {None: "server's alone", False: "public refused", True: "public accepted"}
HISTORIES = [
    pytest.param(seed, accepts, id=f"{seed}-{name}", marks=[] if seed == number == 1 else pytest.mark.release)
    for number, (accepts, name) in enumerate(ACCEPTS.items())
    for seed in range(4)
]
"""Each seed with each way that public errors are accepted; in `make test` one of them."""
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


def document(environment: str | None = "production", **trigger: Any) -> Document:
    entries = contract_of("review_required", environment=environment)["automations"]
    for part in ("bindings", "policy"):
        entries[0][part]["trigger"] = entries[0][part]["trigger"] | trigger
    checked = check_contract(entries)
    assert checked.errors == []
    return make_document(entries, checked)


class Days:
    """The service under a clock that stands still until it is moved."""

    def __init__(self, store: EventStore, sql: Sql, intake: Any, seed: int, public: float = 0.0) -> None:
        self.store, self.sql, self.intake, self.public = store, sql, intake, public
        self.random = random.Random(seed)
        sql.execute(
            "create or replace function service_now() returns timestamptz language sql volatile as "
            "'select to_timestamp(offset_seconds::float8) from service_clock'"
        )
        self.to(BEGAN)

    def to(self, moment: int) -> None:
        self.sql.execute("update service_clock set offset_seconds = %s", (moment,))
        self.now = moment

    async def append(self, stream: Stream, *events: Event) -> None:
        def decide(unit: Unit) -> Answer:
            unit.append(stream, events)
            return Answer(204, None)

        origin = Origin("system", "test", "TEST", "req_test")
        await self.store.execute(Command(origin=origin, decide=decide, streams=[stream], gates=[PROJECT]))

    async def error(self) -> None:
        environment = self.random.choice(["production", "production", "staging"])
        word = self.random.choice(WORDS)
        of = public_sender() if self.random.random() < self.public else None
        await send(self.intake, log_item(f"The {word} has failed", environment=environment, of=of))

    async def resolve(self) -> None:
        found = self.sql.execute("select id from cases where status = 'open' order by id").fetchall()
        if found:
            [case_id] = self.random.choice(found)
            await self.append(cases.stream(PROJECT, case_id), cases.CaseResolved(None, "run_1", self.now))

    async def sweep(self) -> None:
        await make_sweep(self.store).run()

    async def pass_time(self, steps: int, *, looking: bool) -> None:
        for _ in range(steps):
            self.to(self.now + self.random.choice([1, 20, 61, 61, 300, 1000]))
            for _ in range(self.random.choice([0, 0, 1, 3])):
                await self.error()
            if self.random.random() < 0.1:
                await self.resolve()
            if looking:
                self.to(self.now + 1)
                await self.sweep()

    async def enable(self, chosen: Document, facts: Facts = READY) -> None:
        stream = contracts.stream(PROJECT)

        def decide(unit: Unit) -> Answer:
            state = unit.append(
                stream,
                contracts.decide_save(
                    unit.state(stream), chosen, contract_id=stream.id, if_match=None, saved_by="u", now=unit.now
                ),
            )
            wish = EnableWish("enr_1", None, state.etag, command_of("u", "k"), "r")
            unit.append(stream, contracts.decide_enable(state, wish, facts, enabled_by="u", now=unit.now))
            return Answer(204, None)

        origin = Origin("system", "test", "TEST", "req_test")
        await self.store.execute(Command(origin=origin, decide=decide, streams=[stream], gates=[PROJECT]))


def recorded(sql: Sql) -> list[DecisionRow]:
    rows = sql.execute("select (to_jsonb(d) - 'seq')::text from automation_decisions d").fetchall()
    return [msgspec.json.decode(text, type=DecisionRow) for (text,) in rows]


def in_order(rows: list[DecisionRow]) -> list[bytes]:
    return [msgspec.json.encode(row) for row in sorted(rows, key=lambda row: (row.decided_at, row.id))]


PLACES = st.none() | st.integers(0, 400)


@given(
    st.integers(0, 400),
    st.integers(1, 400),
    st.sampled_from(["open", "resolved"]),
    st.integers(0, 5),
    PLACES,
    PLACES,
    st.integers(1, 300),
    st.integers(1, 300),
    st.booleans(),
)
def test_between_two_judgements_time_changes_nothing(  # noqa: PLR0917
    now: int,
    after: int,
    status: str,
    count: int,
    last_seen_at: int | None,
    offered_at: int | None,
    cooldown: int,
    age: int,
    observed: bool,
) -> None:
    """Every second until the moment that is named is judged alike, check by check."""
    trigger = CaseTrigger(2, cooldown, Thresholds(2, age))
    policy = Policy(case_trigger=trigger, limits=Limits(max_attempts_per_case_revision=1))
    authority = Authority(automation_id="heal", enabled=True, generation=1, policy=policy)
    facts = CaseFacts(
        case_id="case_1",
        revision=1,
        status=status,
        trust="customer_provider",
        event_count=count,
        first_seen_at=0,
        last_seen_at=last_seen_at,
    )
    lease, receipt = Lease(), ReceiptState()
    if offered_at is not None:
        lease = Lease(status=leases.Status.OFFERED, automation_id="heal", receipt_id="trc_1", offered_at=offered_at)
        receipt = ReceiptState(status=receipts.Status.ISSUED, generation=1, expires_at=offered_at + 150)
    chain = Chain(lease, receipt, Claim(), Run())

    def outcome(moment: int) -> tuple[str, list[tuple[str, bool]]]:
        judged = offer.judge_case(chain, lambda _: authority, "heal", facts, moment, observed=observed)
        return outcome_of(judged), [(check.check, check.passed) for check in judged.checks]

    first = offer.judge_case(chain, lambda _: authority, "heal", facts, now, observed=observed)
    until = offer.steady_until(first, chain, policy, now)
    assert until is None or until > now
    moment = now + after if until is None else min(now + after, until - 1)
    assert outcome(moment) == outcome(now)


async def replayed(store: EventStore, chosen: Document, days: int = 1) -> Backtest:
    names = [automation.automation_id for automation in chosen.automations]
    past = await read_past(store, PROJECT, days, names)
    assert past.unknown == []
    test = Backtest(PROJECT, contract_row(PROJECT, chosen, past.start), past.known)
    judged = sum(test.run(past.looks, past.changes))
    assert judged <= test.considered
    return test


@pytest.mark.parametrize(("seed", "accepts"), HISTORIES)
async def test_it_comes_to_what_the_service_came_to(
    store: EventStore, sql: Sql, database_url: str, seed: int, accepts: bool | None
) -> None:
    """Errors in two environments, cases that close and regress, before the first look and between all others.

    Some come by the public DSN, where there is one.
    """
    if accepts is not None:
        make_public(sql, accepts=accepts)
    chosen = document(
        environment=["production", None][seed % 2],
        max_cases_per_sweep=1 + seed % 3,
        cooldown_seconds=[60, 900, 7200][seed % 3],
        materiality={"minimum_event_count": 1 + seed % 3, "maximum_last_seen_age_seconds": [600, 3600][seed % 2]},
    )
    async with running(database_url) as intake:
        days = Days(store, sql, intake, seed, 0.0 if accepts is None else 0.5)
        await days.pass_time(10, looking=False)
        days.to(BEGAN + DAY - HOUR)
        await days.pass_time(5, looking=False)
        await days.enable(chosen)
        await days.pass_time(60, looking=True)
    test = await replayed(store, chosen)
    assert in_order(test.decisions) == in_order(recorded(sql))
    query = "select id, case_id, issued_at, expires_at from trigger_receipts order by issued_at, id"
    issued = sorted(test.receipts, key=lambda receipt: (receipt.issued_at, receipt.receipt_id))
    assert [(one.receipt_id, one.case_id, one.issued_at, one.expires_at) for one in issued] == [
        (row[0], row[1], row[2], row[3]) for row in sql.execute(query.encode()).fetchall()
    ]
    codes = {row.code for row in test.decisions}
    assert {None, "materiality_not_met", "receipt_open"} <= codes, codes


@pytest.mark.parametrize("seed", SEEDS)
async def test_several_automations_come_to_what_they_came_to(
    store: EventStore, sql: Sql, database_url: str, seed: int
) -> None:
    """Three with bounds of their own want the same cases, beside a review: the contract says who has one."""
    bounds: dict[str, dict[str, Any]] = {
        "heal": {"max_cases_per_sweep": 1, "cooldown_seconds": 900},
        "mend": {"max_cases_per_sweep": 2, "cooldown_seconds": 60},
        "watch": {"max_cases_per_sweep": 3, "cooldown_seconds": 3600},
    }
    counts = {"heal": 2, "mend": 1 + seed, "watch": 3}
    entries = []
    for name, trigger in bounds.items():
        [entry] = contract_of("review_required", name, environment=[None, "production"][seed % 2])["automations"]
        bar = {"minimum_event_count": counts[name], "maximum_last_seen_age_seconds": 3600}
        for part in ("bindings", "policy"):
            entry[part]["trigger"] = entry[part]["trigger"] | trigger | {"materiality": bar}
        entries.append(entry)
    hourly = {"cron": "30 * * * *", "timezone": "UTC", "start_window_seconds": 1800}
    review = bindings_of(REVIEW, "review") | {"schedule": hourly}
    entries.append(assemble_entry(find_template(REVIEW), review, assertions_of(REVIEW)))
    checked = check_contract(entries)
    assert checked.errors == []
    chosen = make_document(entries, checked)
    ready = msgspec.structs.replace(READY_FOR_REVIEW, runner_credentials=frozenset([*bounds, "review"]))
    async with running(database_url) as intake:
        days = Days(store, sql, intake, seed)
        await days.pass_time(10, looking=False)
        days.to(BEGAN + DAY - HOUR)
        await days.enable(chosen, ready)
        await days.pass_time(60, looking=True)
    test = await replayed(store, chosen)
    assert in_order(test.decisions) == in_order(recorded(sql))
    query = "select automation_id, id, case_id, issued_at from trigger_receipts order by issued_at, id"
    issued = sorted(test.receipts, key=lambda receipt: (receipt.issued_at, receipt.receipt_id))
    assert [(one.automation_id, one.receipt_id, one.case_id, one.issued_at) for one in issued] == sql.execute(
        query.encode()
    ).fetchall()
    assert {receipt.automation_id for receipt in issued} >= {"heal", "mend", "review"}
    passed_over = {row.automation_id for row in test.decisions if row.code == "receipt_open"}
    assert passed_over == set(bounds), "each has met a case that another one held"


@pytest.mark.parametrize("seed", SEEDS)
async def test_cases_that_no_look_comes_to_are_not_read(
    store: EventStore, sql: Sql, database_url: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Of cases to which nothing happened as many are read as one look takes in, and it comes to the same."""
    chosen = document(
        environment=None,
        max_cases_per_sweep=1,
        materiality={"minimum_event_count": 1, "maximum_last_seen_age_seconds": 604800},
    )
    async with running(database_url) as intake:
        days = Days(store, sql, intake, seed)
        await days.pass_time(20, looking=False)
        for number in range(12):
            await send(intake, *[log_item(f"Part {chr(97 + number)} is missing") for _ in range(1 + number % 4)])
        days.to(BEGAN + 2 * DAY - HOUR)
        await days.enable(chosen)
        await days.pass_time(20, looking=True)
    monkeypatch.setattr("service.runs.backtesting.LOOKED_AT", 3)
    whole = await replayed(store, chosen)
    monkeypatch.setattr("service.runs.past_facts.LOOKED_AT", 3)
    past = await read_past(store, PROJECT, 1, ["heal"])
    part = await replayed(store, chosen)
    assert len(past.known) < len(sql.execute("select from case_stats").fetchall())
    assert (part.decisions, part.receipts, part.considered) == (whole.decisions, whole.receipts, whole.considered)
    assert part.decisions


async def test_what_retention_has_taken_is_named_and_not_guessed(
    store: EventStore, sql: Sql, database_url: str
) -> None:
    """A case whose errors from before are gone is left out, with what is missing of it; the others are decided."""
    async with running(database_url) as intake:
        days = Days(store, sql, intake, 1)
        for word in WORDS[:3]:
            await send(intake, log_item(f"The {word} has failed", environment="production"))
        gone, partly, whole = (row[0] for row in sql.execute("select id from cases order by id").fetchall())
        days.to(BEGAN + 100)
        for word in WORDS[:3]:
            await send(intake, log_item(f"The {word} has failed", environment="staging"))
        days.to(BEGAN + DAY + 200)
        for word in WORDS[:3]:
            await send(intake, log_item(f"The {word} has failed", environment="staging"))
        await days.enable(document())
        await days.sweep()
    sql.execute("delete from log_events where case_id = %s and received_at < %s", (gone, BEGAN + DAY))
    sql.execute("delete from log_events where case_id = %s and received_at < %s", (partly, BEGAN + 100))
    past = await read_past(store, PROJECT, 1, ["heal"])
    assert past.unknown == sorted(
        [Unknown(gone, ["last_seen_at", "trust", "environments"]), Unknown(partly, ["environments"])]
    )
    assert past.known.keys() == {whole}
    test = Backtest(PROJECT, contract_row(PROJECT, document(), past.start), past.known)
    assert sum(test.run(past.looks, past.changes)) == 1
    assert [row.case_id for row in test.decisions] == [whole]


async def test_the_slots_of_a_schedule_get_the_receipts_that_they_got(store: EventStore, sql: Sql) -> None:
    """Over a week of looks every few hours; the receipt of a slot is issued by the first of them in its window."""
    entry = assemble_entry(find_template(REVIEW), bindings_of(REVIEW, "review"), assertions_of(REVIEW))
    checked = check_contract([entry])
    assert checked.errors == []
    chosen = make_document([entry], checked)
    days = Days(store, sql, None, 3)
    await days.enable(chosen, READY_FOR_REVIEW)
    for _ in range(8 * 12):
        days.to(days.now + 2 * HOUR)
        await days.sweep()
    test = await replayed(store, chosen, days=9)
    query = "select id, issued_at, expires_at from trigger_receipts order by issued_at"
    found = [(one.receipt_id, one.issued_at, one.expires_at) for one in test.receipts]
    assert found == sql.execute(query).fetchall()
    assert found
