"""`service log continue`: a new origin after a restore."""

from __future__ import annotations

import click

from service.cli.log.group import log
from service.cli.shared.common import connected, database, json_option, print_json, say


@log.command("continue")
@json_option
def continue_(as_json: bool) -> None:
    """Begin a new origin for a restored log.

    Outsiders then see another log, with the old name in the new one. Tell them why. The command refuses while the
    log may be signed.
    """
    from service.eventstore.tree.continuing import NothingToContinue, continue_log
    from service.eventstore.tree.growing import CheckpointFile

    with database() as settings, connected(settings) as opened:
        try:
            done = continue_log(opened, CheckpointFile(settings.erasure_ledger))
        except NothingToContinue:
            raise click.ClickException("The log may be signed as it is: it continues the last checkpoint.") from None
    if as_json:
        print_json({"origin": done.origin, "continues": done.last.origin, "at_size": done.last.size})
    else:
        say(f"The log is signed as {done.origin} from now on.")
        say(f"It continues {done.last.origin}, whose last checkpoint has size {done.last.size}.")
