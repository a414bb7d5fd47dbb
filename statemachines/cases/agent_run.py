"""What an agent did about a case, as a member records it: once, never changed (R-CASE-01).

It has nothing to do with the runs of an automation: it holds no claim, costs no budget and proves nothing.
"""

from enum import Enum

import msgspec

from statemachines.cases.case import CaseNotActionable
from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table

MAX_AGENT_RUNS = 500
"""The most recorded runs of a case. They stay for ever, and an archive holds them all."""


def stream(project_id: str, agent_run_id: str) -> Stream:
    """History of the record of an agent's run."""
    return Stream(MACHINE, project_id, agent_run_id)


class Status(Enum):
    """Where a record stands."""

    ABSENT = "absent"
    RECORDED = "recorded"


class Outcome(Enum):
    """What came of the run. MARKED_SPURIOUS takes the case out of attention."""

    PR_OPENED = "pr_opened"
    ESCALATED = "escalated"
    MARKED_SPURIOUS = "marked_spurious"
    FAILED = "failed"


class AgentRunRecorded(Event, frozen=True):
    """A member says what an agent did about a case."""

    TOPIC = "agent_run.recorded.v1"
    case_id: str
    outcome: str
    summary_md: str | None
    pr_url: str | None
    recorded_at: int


TABLE = transition_table(Status, Status.ABSENT, [[AgentRunRecorded.TOPIC, Status.ABSENT, Status.RECORDED]])


class AgentRun(msgspec.Struct, frozen=True):
    """What decisions about a record depend on."""

    status: Status = Status.ABSENT


class AgentRunConflict(Rejection):
    """The run is recorded already."""

    code = "idempotency_key_reused"


def decide_record_run(
    state: AgentRun,
    case_id: str,
    outcome: Outcome,
    summary_md: str | None,
    pr_url: str | None,
    now: int,
    *,
    beside: int = 0,
) -> list[Event]:
    """Record a run `beside` the others of the case, once. Raises CaseNotActionable for a full case."""
    if state.status is Status.RECORDED:
        return []
    if beside >= MAX_AGENT_RUNS:
        raise CaseNotActionable(
            f"A case takes at most {MAX_AGENT_RUNS:,} records of agents' runs.",
            next_action="Record what follows in your own tracker. Ignore the case if it is noise.",
            most=MAX_AGENT_RUNS,
        )
    return [AgentRunRecorded(case_id, outcome.value, summary_md, pr_url, now)]


def evolve(state: AgentRun, event: Event) -> AgentRun:
    """Fold an event of a record."""
    return AgentRun(Status[destination(TABLE, event, state.status)])


MACHINE = StateMachine("arun", TABLE, AgentRun(), evolve, AgentRunConflict, AgentRun)
