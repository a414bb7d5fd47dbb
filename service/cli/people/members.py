"""`service members`: who belongs to a project, for the operator; owners have operations for it (G-177)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from service.cli.shared.common import json_option, say, show, with_store

if TYPE_CHECKING:
    from service.eventstore.store import EventStore


@click.group()
def members() -> None:
    """Members of projects."""


@members.command()
@click.argument("project_id")
@click.argument("person")
@click.option("--role", type=click.Choice(["owner", "member", "auditor"]), default="member", show_default=True)
def add(project_id: str, person: str, role: str) -> None:
    """Add PERSON (user id or mail address) to a project, or change the role.

    An auditor reads everything but the raw DSN and changes nothing.
    """
    user_id = with_store(lambda store: _add(store, project_id, person, role))
    say(f"{user_id} is {role} of {project_id}.")


@members.command("list")
@click.argument("project_id")
@json_option
def list_(project_id: str, as_json: bool) -> None:
    """List the members of a project, oldest first."""
    from service.accounts import person as persons

    rows = [member._asdict() for member in with_store(lambda store: persons.members_of(store, project_id))]
    show(rows, ("user_id", "email", "role", "created_at"), as_json=as_json)


@members.command()
@click.argument("project_id")
@click.argument("person")
def remove(project_id: str, person: str) -> None:
    """Remove PERSON from a project. After this returns, nothing that began later by that right commits."""
    user_id = with_store(lambda store: _remove(store, project_id, person))
    say(f"{user_id} is no longer a member of {project_id}.")


async def _add(store: EventStore, project_id: str, person: str, role: str) -> str:
    from service.accounts import operator
    from service.accounts import person as persons
    from statemachines.accounts.membership import Role

    found = await persons.find_person(store, person)
    await operator.set_member(store, project_id, found.id, Role(role))
    return found.id


async def _remove(store: EventStore, project_id: str, person: str) -> str:
    from service.accounts import operator
    from service.accounts import person as persons

    found = await persons.find_person(store, person)
    await operator.remove_member(store, project_id, found.id)
    return found.id
