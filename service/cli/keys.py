"""`service keys`: API keys of people, and sign-ins that wait for authorization."""

from __future__ import annotations

import click

from service.cli.common import json_option, print_json, show, with_store


@click.group()
def keys() -> None:
    """API keys of people, and their sign-ins."""


@keys.command()
@click.option("--email", required=True, help="Whose key: the person is made when there is none.")
@click.option("--name", help="The person's name.")
@json_option
def create(email: str, name: str | None, as_json: bool) -> None:
    """Create a key for a person. It is shown once."""
    from service.accounts import operator as admin

    made = with_store(lambda store: admin.create_key(store, admin.email_identity(email, name)))
    if as_json:
        print_json(made)
        return
    click.echo(f"User  {made.user_id}{' (new)' if made.is_new else ''}", err=True)
    click.echo(f"Key   {made.key_id}; shown once:", err=True)
    click.echo(made.api_key)


@keys.command("list")
@click.option("--person", help="Only of this person (user id or mail address).")
@json_option
def list_(person: str | None, as_json: bool) -> None:
    """List keys, newest first; of a key only its prefix is kept."""
    from service.accounts import operator as admin
    from service.eventstore.store import EventStore

    async def read(store: EventStore) -> list[admin.ListedKey]:
        user_id = None if person is None else (await admin.find_person(store, person)).id
        return await admin.list_keys(store, user_id)

    rows = [
        {
            "key_id": listed.key.id,
            "key_prefix": listed.key.key_prefix,
            "user_id": listed.key.user_id,
            "email": listed.email,
            "status": listed.key.status,
            "created_at": listed.key.created_at,
            "last_used_at": listed.last_used_at,
        }
        for listed in with_store(read)
    ]
    show(rows, ("key_id", "key_prefix", "email", "status", "created_at", "last_used_at"), as_json=as_json)


@keys.command()
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Revoke a key. Once this returns, nothing can be committed with it."""
    from service.accounts import operator as admin

    with_store(lambda store: admin.revoke_key(store, key_id))
    click.echo(f"Revoked {key_id}.")


@keys.command("sign-ins")
@json_option
def sign_ins(as_json: bool) -> None:
    """List the sign-ins that are under way."""
    from service.accounts import operator as admin

    rows = [
        {
            "id": row.id,
            "client_name": row.client_name,
            "status": row.status,
            "started_at": row.started_at,
            "expires_at": row.expires_at,
        }
        for row in with_store(admin.list_sign_ins)
    ]
    show(rows, ("id", "client_name", "status", "started_at", "expires_at"), as_json=as_json)


@keys.command()
@click.argument("user_code")
@click.option("--email", required=True, help="Who signs in: the person is made when there is none.")
@click.option("--name", help="The person's name.")
def authorize(user_code: str, email: str, name: str | None) -> None:
    """Authorize the USER_CODE that a device shows as a person; the device then gets its key."""
    from service.accounts import operator as admin

    user_id = with_store(lambda store: admin.authorize_sign_in(store, user_code, admin.email_identity(email, name)))
    click.echo(f"The device signs in as {user_id}.")


@keys.command()
@click.argument("user_code")
def deny(user_code: str) -> None:
    """Refuse the USER_CODE that a device shows."""
    from service.accounts import operator as admin

    with_store(lambda store: admin.deny_sign_in(store, user_code))
    click.echo("Refused.")
