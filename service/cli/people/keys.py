"""`service keys`: API keys of people, and the sign-ins that wait for someone to stand behind them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from schemas.kernel.patterns import MAIL_ADDRESS, words_for
from service.cli.shared.common import json_option, print_json, say, show, with_store

if TYPE_CHECKING:
    from service.accounts.person import ListedKey
    from service.eventstore.store import EventStore


F = TypeVar("F", bound=Callable[..., Any])


def mail_address(_: click.Context, __: click.Parameter, value: str) -> str:
    """Take a mail address as the interface does. Raises BadParameter for anything else."""
    if not re.match(MAIL_ADDRESS, value):
        raise click.BadParameter(f"must be text {words_for(MAIL_ADDRESS)}.")
    return value


def identity_options(command: F) -> F:
    """Add the options for the identity of a person, by mail address and name."""
    named = click.option("--name", help="The person's name.")
    email = click.option(
        "--email",
        required=True,
        callback=mail_address,
        help="Mail address of the person. A new person is created if necessary.",
    )
    return email(named(command))


@click.group()
def keys() -> None:
    """API keys of people, and their sign-ins."""


@keys.command()
@identity_options
@json_option
def create(email: str, name: str | None, as_json: bool) -> None:
    """Make a key for a person. It is shown once."""
    from service.accounts import operator

    made = with_store(lambda store: operator.create_key(store, operator.email_identity(email, name)))
    if as_json:
        print_json(made)
        return
    say(f"User  {made.user_id}{' (new)' if made.is_new else ''}", err=True)
    say(f"Key   {made.key_id}; shown once:", err=True)
    say(made.api_key)


@keys.command("list")
@click.option("--person", help="Only this person, by user id or mail address.")
@json_option
def list_(person: str | None, as_json: bool) -> None:
    """List keys by prefix, newest first."""
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
        for listed in with_store(lambda store: _keys_of(store, person))
    ]
    show(rows, ("key_id", "key_prefix", "email", "status", "created_at", "last_used_at"), as_json=as_json)


@keys.command()
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Revoke a key. After this returns, nothing that began later with the key commits."""
    from service.accounts import operator

    with_store(lambda store: operator.revoke_key(store, key_id))
    say(f"Revoked {key_id}.")


@keys.command("sign-ins")
@json_option
def sign_ins(as_json: bool) -> None:
    """List open sign-ins."""
    from service.accounts import person as persons

    rows = [
        {
            "id": row.id,
            "client_name": row.client_name,
            "status": row.status,
            "started_at": row.started_at,
            "expires_at": row.expires_at,
        }
        for row in with_store(persons.live_sign_ins)
    ]
    show(rows, ("id", "client_name", "status", "started_at", "expires_at"), as_json=as_json)


@keys.command()
@click.argument("user_code")
@identity_options
def authorize(user_code: str, email: str, name: str | None) -> None:
    """Confirm the USER_CODE on a device for a person. The device then gets its key."""
    from service.accounts import operator

    user_id = with_store(
        lambda store: operator.authorize_sign_in(store, user_code, operator.email_identity(email, name))
    )
    say(f"The device signs in as {user_id}.")


@keys.command()
@click.argument("user_code")
def deny(user_code: str) -> None:
    """Refuse the USER_CODE on a device."""
    from service.accounts import operator

    with_store(lambda store: operator.deny_sign_in(store, user_code))
    say("Refused.")


async def _keys_of(store: EventStore, person: str | None) -> list[ListedKey]:
    from service.accounts import person as persons

    user_id = None if person is None else (await persons.find_person(store, person)).id
    return await persons.all_keys(store, user_id)
