"""`service log`: show the signed log, and continue it after a restore."""

import click

from service.cli.shared.common import connected, database, json_option, looking, print_json, say

# `service log`: the log as outsiders see it.


@click.group()
def log() -> None:
    """Show the signed log, and continue it after a restore."""


# `service log status` and `service log keys`: the signed size of the log, and its keys.


@log.command()
@json_option
def status(as_json: bool) -> None:
    """Show origin and size of the log, and whether it may be signed.

    Exits with 0 when it may be signed, 1 when it does not continue the last checkpoint, 4 when it could not look.
    """
    from service.tlog.signing import judge, look
    from service.tlog.tree import CheckpointFile

    with looking(), database() as settings, connected(settings) as opened:
        seen = look(opened)
        standing = judge(opened, seen, CheckpointFile(settings.erasure_ledger))
    shown = {
        "origin": seen.origin,
        "continues": seen.continues,
        "size": seen.size,
        "signed_size": seen.signed_size,
        "verdict": standing.verdict.value,
        "detail": standing.detail,
    }
    if as_json:
        print_json(shown)
    else:
        say(f"Origin: {seen.origin}")
        if seen.continues:
            say(f"It continues {seen.continues} at size {seen.at_size}.")
        say(f"Events: {seen.size}, signed: {'none' if seen.signed_size is None else seen.signed_size}")
        say("The log may be signed." if standing.signs else f"Not signed ({standing.verdict}): {standing.detail}")
    if not standing.signs:
        raise SystemExit(1)


@log.command()
@json_option
def keys(as_json: bool) -> None:
    """Print the public keys of the log, one a line, as vkeys of C2SP signed-note. JSON has their first use."""
    from service.tlog.tree import KEYS

    with database() as settings, connected(settings) as opened:
        rows = [dict(zip(("vkey", "first_signed_at"), row, strict=True)) for row in opened.execute(KEYS)]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        say(row["vkey"])


# `service log continue`: a new origin after a restore.


@log.command("continue")
@json_option
def continue_(as_json: bool) -> None:
    """Begin a new origin for a restored log.

    Outsiders then see another log, with the old name in the new one. Tell them why. The command refuses while the
    log may be signed.
    """
    from service.tlog.signing import NothingToContinue, continue_log
    from service.tlog.tree import CheckpointFile

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
