"""`service console`: the way of people into the console."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from service.cli.people.keys import identity_options
from service.cli.shared.common import advised, json_option, print_json, say, with_store

if TYPE_CHECKING:
    from service.accounts.sign_in import NewLink
    from service.eventstore.store import EventStore
    from service.settings import Settings


@click.group()
def console() -> None:
    """Pages for people."""


@console.command("open")
@identity_options
@json_option
def open_(email: str, name: str | None, as_json: bool) -> None:
    """Print a link that signs a person in, once and within 120 seconds."""
    from service.settings import load_settings

    made = with_store(lambda store: _offer(store, email, name))
    address, problem = _address(load_settings(secrets=False))
    link = f"{address}/console/enter?{urlencode({'token': made.secret})}"
    if problem:
        say(advised(problem), err=True)
    if as_json:
        print_json({"user_id": made.user_id, "is_new": made.is_new, "link": link})
        return
    say(f"User  {made.user_id}{' (new)' if made.is_new else ''}", err=True)
    say("Open within two minutes; it works once:", err=True)
    say(link)


async def _offer(store: EventStore, email: str, name: str | None) -> NewLink:
    """Make the link. Raises ClickException for the address of a person with another sign-in."""
    from service.accounts import operator, person

    identity = operator.email_identity(email, name)
    other = await person.find_signed_in_otherwise(store, identity)
    if other is not None:
        raise click.ClickException(
            f"{email} is the address of {other.id}, who signs in at an identity provider. A link would open another, "
            "empty account. Let the person sign in there, on the page /console."
        )
    return await operator.offer_first_session(store, identity)


def _address(settings: Settings) -> tuple[str, str]:
    """Address of the service, and a problem or nothing.

    The running service tells it. Beside another database, SERVICE_BASE_URL does, then SERVICE_URL.
    """
    from service.embedded.attach import supervisor_of
    from service.embedded.layout import Layout

    if settings.embedded:
        running = supervisor_of(Layout(settings.data_dir))
        if running is not None:
            return running.base_url or settings.base_url, ""
        return settings.base_url, "The service does not run on this data directory. Start it with `service serve`."
    given = os.environ.get("SERVICE_URL") if not os.environ.get("SERVICE_BASE_URL") else None
    return (given or settings.base_url).rstrip("/"), ""
