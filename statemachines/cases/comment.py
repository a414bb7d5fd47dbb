"""A comment of a member on a case: written once, never changed (G-145). It moves no case and raises no revision."""

from enum import Enum

import msgspec

from statemachines.cases.case import CaseNotActionable
from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table

MAX_COMMENTS = 1_000
"""The most comments of a case. They stay for ever, and an archive holds them all."""


def stream(project_id: str, comment_id: str) -> Stream:
    """History of a comment."""
    return Stream(MACHINE, project_id, comment_id)


class Status(Enum):
    """Where a comment stands."""

    ABSENT = "absent"
    WRITTEN = "written"


class CommentWritten(Event, frozen=True):
    """A member said something about a case."""

    TOPIC = "comment.written.v1"
    case_id: str
    user_id: str
    text: str
    commented_at: int


TABLE = transition_table(Status, Status.ABSENT, [[CommentWritten.TOPIC, Status.ABSENT, Status.WRITTEN]])


class Comment(msgspec.Struct, frozen=True):
    """What decisions about a comment depend on."""

    status: Status = Status.ABSENT


class CommentConflict(Rejection):
    """The comment is written already."""

    code = "idempotency_key_reused"


def decide_write(state: Comment, case_id: str, user_id: str, text: str, now: int, *, beside: int = 0) -> list[Event]:
    """Write a comment `beside` the others of the case, once. Raises CaseNotActionable for a full case."""
    if state.status is Status.WRITTEN:
        return []
    if beside >= MAX_COMMENTS:
        raise CaseNotActionable(
            f"A case takes at most {MAX_COMMENTS:,} comments.",
            next_action="Write what follows in your own tracker.",
            most=MAX_COMMENTS,
        )
    return [CommentWritten(case_id, user_id, text, now)]


def evolve(state: Comment, event: Event) -> Comment:
    """Fold an event of a comment."""
    return Comment(Status[destination(TABLE, event, state.status)])


MACHINE = StateMachine("cmt", TABLE, Comment(), evolve, CommentConflict, Comment)
