"""`service console`: the way of people into the console."""

from __future__ import annotations

from urllib.parse import urlencode

import click

from service.cli.people.keys import identity_options
from service.cli.shared.common import json_option, print_json, say, with_store


@click.group()
def console() -> None:
    """Pages for people."""


@console.command("open")
@identity_options
@json_option
def open_(email: str, name: str | None, as_json: bool) -> None:
    """Print a link that signs a person in, once and within 120 seconds."""
    from service.accounts.commands import operator
    from service.settings import load_settings

    made = with_store(lambda store: operator.offer_first_session(store, operator.email_identity(email, name)))
    link = f"{load_settings().base_url}/console/enter?{urlencode({'token': made.secret})}"
    if as_json:
        print_json({"user_id": made.user_id, "is_new": made.is_new, "link": link})
        return
    say(f"User  {made.user_id}{' (new)' if made.is_new else ''}", err=True)
    say("Open within two minutes; it works once:", err=True)
    say(link)
