"""Commands of the system in a project: of the sweep, of an operator at the machine, of a provider's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from projections.projects import project as projects
from service.auth.authority import check_fence
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent, system_command
from service.eventstore.store import EventStore
from statemachines.projects.project import ProjectNotFound

T = TypeVar("T")

PROJECTS = projects.OWNED


async def carry_out(
    store: EventStore, actor: str, operation: str, intent: Intent[T], *, project: str = "", gates: Sequence[str] = ()
) -> T:
    """Carry out an intent as the system; returns what it decided. For `actor` and `operation` see system_command.

    `gates` are held shared. Within a `project` its gate is held too, exclusively when the intent is a fence, and the
    command is refused once the project is fenced. Raises what the store raises, the Rejection of the decision, and
    ProjectNotFound and ProjectDeletionInProgress for the project.
    """
    fence = intent.fence if isinstance(intent.fence, str) else project
    exclusive = {fence, *intent.drains} if intent.fence else set()
    results: list[T] = []
    command = system_command(
        actor,
        operation,
        intent,
        gates=sorted({*gates, project} - {"", *exclusive}),
        exclusive=sorted(exclusive),
        lookups=[Lookup(PROJECTS, project, project)] if project else [],
        authorize=lambda unit: _check_project(unit, project) if project else None,
        told=results.append,
    )
    await store.execute(command)
    return results[-1]


def _check_project(unit: Unit, project: str) -> None:
    row = unit.row(PROJECTS, project, project)
    if row is None:
        raise ProjectNotFound("There is no such project.")
    check_fence(row)
