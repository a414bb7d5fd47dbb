"""`service members`: the members of a project. The API has no operation for it (G-019)."""

from __future__ import annotations

import click

from service.cli.common import json_option, show, with_store


@click.group()
def members() -> None:
    """Members of projects."""


@members.command()
@click.argument("project_id")
@click.argument("person")
@click.option("--role", type=click.Choice(["owner", "member"]), default="member", show_default=True)
def add(project_id: str, person: str, role: str) -> None:
    """Add PERSON (user id or mail address) to a project, or change the role."""
    from service.accounts import operator as admin
    from service.eventstore.store import EventStore
    from statemachines.accounts.membership import Role

    async def work(store: EventStore) -> str:
        found = await admin.find_person(store, person)
        await admin.set_member(store, project_id, found.id, Role(role))
        return found.id

    click.echo(f"{with_store(work)} is {role} of {project_id}.")


@members.command("list")
@click.argument("project_id")
@json_option
def list_(project_id: str, as_json: bool) -> None:
    """List the members of a project, oldest first."""
    from service.accounts import operator as admin

    rows = [member._asdict() for member in with_store(lambda store: admin.list_members(store, project_id))]
    show(rows, ("user_id", "email", "role", "created_at"), as_json=as_json)


@members.command()
@click.argument("project_id")
@click.argument("person")
def remove(project_id: str, person: str) -> None:
    """End the membership of PERSON. Once this returns, nothing can be committed with it."""
    from service.accounts import operator as admin
    from service.eventstore.store import EventStore

    async def work(store: EventStore) -> str:
        found = await admin.find_person(store, person)
        await admin.remove_member(store, project_id, found.id)
        return found.id

    click.echo(f"{with_store(work)} is no member of {project_id} any more.")
