"""The bindings of a project: workflows of repositories whose tokens CI may exchange for a credential (G-171).

One stream a project, so that its bindings are counted under one lock, and an exchange rests on the revision that it has
read. A credential names the binding it came by, and lives no longer than that: ids of bindings never come back.
"""

from enum import Enum

import msgspec

from statemachines.kernel.machine import (
    Event,
    LimitReached,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    require_given,
    require_same,
    transition_table,
)
from statemachines.kernel.shapes import matches

MOST_BINDINGS = 50
"""Bindings of a project."""


def stream(project_id: str) -> Stream:
    """History of the bindings of a project."""
    return Stream(MACHINE, project_id, derived_id("cibs", project_id))


class Status(Enum):
    """Whether the project ever had a binding."""

    NONE = "none"
    SOME = "some"


class Workflow(msgspec.Struct, frozen=True):
    """A workflow of a repository, as its issuer names it.

    `repository_id` and `owner_id` are the issuer's numbers: a renamed repository keeps them, a new one under the old
    name has others. `ref` may hold `*` after `refs/heads/` or `refs/tags/`. Without an `environment` any is good.
    """

    issuer: str
    repository_id: str
    owner_id: str
    ref: str
    workflow: str
    environment: str | None


class CiBindingAdded(Event, frozen=True):
    """An owner bound a workflow of a repository."""

    TOPIC = "ci_binding.added.v1"
    binding_id: str
    name: str
    bound: Workflow
    added_by: str
    added_at: int


class CiBindingRemoved(Event, frozen=True):
    """An owner removed a binding, and with it ended every credential that it gave."""

    TOPIC = "ci_binding.removed.v1"
    binding_id: str
    removed_by: str
    removed_at: int


TABLE = transition_table(
    Status,
    Status.NONE,
    [
        # event                  from         to
        [CiBindingAdded.TOPIC,   Status.NONE, Status.SOME],
        [CiBindingAdded.TOPIC,   Status.SOME, Status.SOME],
        [CiBindingRemoved.TOPIC, Status.SOME, Status.SOME],
    ],
)  # fmt: skip


class Binding(msgspec.Struct, frozen=True):
    """A binding in force. `added_at` in epoch seconds."""

    id: str
    name: str
    bound: Workflow
    added_by: str
    added_at: int


class Bindings(msgspec.Struct, frozen=True):
    """The bindings in force, oldest first."""

    status: Status = Status.NONE
    revision: int = 0
    bindings: tuple[Binding, ...] = ()

    def find(self, binding_id: str) -> Binding | None:
        """Find a binding by its id."""
        return next((binding for binding in self.bindings if binding.id == binding_id), None)


class CiBindingRefused(Rejection):
    """The binding cannot be recorded."""

    code = "invalid_payload"


class TooManyBindings(LimitReached):
    """The project has as many bindings as it may have."""


class CiBindingNotFound(Rejection):
    """The project has no such binding."""

    code = "not_found"


class Presented(msgspec.Struct, frozen=True):
    """A run of a workflow, as a token of its issuer has proven it. `repository` is its name at that time."""

    token_id: str
    repository: str
    run_id: str
    ran: Workflow


def permits(binding: Binding, run: Presented) -> bool:
    """Whether a binding is for a run: everything is equal, but for the wildcards in its ref."""
    bound, ran = binding.bound, run.ran
    asked = msgspec.structs.replace(
        ran, ref=bound.ref, environment=ran.environment if bound.environment is not None else None
    )
    return asked == bound and matches(bound.ref, ran.ref)


def make_etag(project_id: str, revision: int) -> str:
    """Make the quoted tag of a revision, 0 before the first binding."""
    return f'"cib:{project_id}:{revision}"'


def decide_add(
    state: Bindings, name: str, bound: Workflow, *, project_id: str, if_match: str | None, by: str, now: int
) -> list[Event]:
    """Bind a workflow, if it is not bound yet. Raises PreconditionFailed, TooManyBindings."""
    if if_match is not None:
        _require_same(state, project_id, if_match)
    if any(binding.bound == bound for binding in state.bindings):
        return []
    if len(state.bindings) >= MOST_BINDINGS:
        raise TooManyBindings(
            f"A project has at most {MOST_BINDINGS} bindings.",
            next_action="Remove one that is no longer used.",
        )
    made = derived_id("cib", project_id, str(state.revision + 1))
    return [CiBindingAdded(made, name, bound, by, now)]


def decide_remove(
    state: Bindings, binding_id: str, *, project_id: str, if_match: str | None, by: str, now: int
) -> list[Event]:
    """Remove a binding. Raises CiBindingNotFound, IfMatchRequired, PreconditionFailed."""
    if state.find(binding_id) is None:
        raise CiBindingNotFound("There is no such binding.", next_action="List the bindings of the project.")
    read_first = "Read the bindings, and send their etag as If-Match."
    etag = make_etag(project_id, state.revision)
    given = require_given(if_match, etag, "Removing a binding needs If-Match.", read_first)
    _require_same(state, project_id, given)
    return [CiBindingRemoved(binding_id, by, now)]


def _require_same(state: Bindings, project_id: str, if_match: str) -> None:
    etag = make_etag(project_id, state.revision)
    read_again = "Read the bindings again, and retry only if you still want the change."
    require_same(if_match, etag, "The bindings have changed since you read them.", read_again)


def evolve(state: Bindings, event: Event) -> Bindings:
    """Fold an event of the bindings."""
    status, revision = Status[destination(TABLE, event, state.status)], state.revision + 1
    match event:
        case CiBindingAdded():
            added = Binding(event.binding_id, event.name, event.bound, event.added_by, event.added_at)
            return Bindings(status, revision, (*state.bindings, added))
        case CiBindingRemoved(binding_id):
            left = tuple(binding for binding in state.bindings if binding.id != binding_id)
            return Bindings(status, revision, left)
    return state


MACHINE = StateMachine("cibs", TABLE, Bindings(), evolve, CiBindingRefused, Bindings)
