"""`service events verify`: hashes, chains, payloads, the log and its guards."""

from __future__ import annotations

from typing import Any

from service.cli.events.group import events
from service.cli.shared.common import connected, database, json_option, looking, print_json, say, show
from service.sql import load_query

_LOG_SIZE = load_query("cli", "log_size")
VERIFIED = ("what", "project_id", "stream_id", "revision", "detail")
NOT_PROVEN = (
    "that the newest events were not cut off together with their places in the log",
    "that no history was written anew with hashes that fit",
    "that no event was added with hashes that fit",
    "that streams have their places in the log in the order of their commits",
)
"""What somebody who may write to the database, past its guards, could have done unseen."""


@events.command()
@json_option
def verify(as_json: bool) -> None:
    """Recompute every hash and chain, read every payload, and check the log, its tree and its guards.

    Exits with 0 without findings, 1 with findings, 4 when it could not check. The last lines list what only checkpoints
    that somebody else kept could prove.
    """
    from service.eventstore.history.audit import CheckedHistory, check_history
    from service.eventstore.schema.guards import check_guards
    from service.eventstore.tree.reading import check_tree
    from service.registry import machines

    machines()  # Imports every module that declares topics: payloads are read too.
    seen = CheckedHistory()
    with looking(), database() as settings, connected(settings) as opened:
        found = [problem._asdict() for problem in check_history(opened, seen)]
        found += [problem._asdict() for problem in check_tree(opened)]
        parted = settings.migration_database_url is not None
        weak = [weakness._asdict() for weakness in check_guards(opened, parted=parted)]
        [[numbered]] = opened.execute(_LOG_SIZE).fetchall()
    findings = [{**dict.fromkeys(VERIFIED), **problem} for problem in [*found, *weak]]
    erased = [scope._asdict() for scope in seen.erased]
    counts = {"events": seen.events, "numbered": numbered, "of_later_releases": seen.newer}
    if as_json:
        print_json({**counts, "findings": findings, "erased": erased, "not_proven": NOT_PROVEN})
    else:
        show(
            findings,
            VERIFIED,
            as_json=False,
            empty=f"Nothing is wrong with {seen.events} events ({numbered} numbered).",
        )
        _say_more(erased, seen.newer)
    if findings:
        raise SystemExit(1)


def _say_more(erased: list[dict[str, Any]], newer: int) -> None:
    """What is no finding and yet has to be known, and what is not proven."""
    for project_id, count, deletion_id in (scope.values() for scope in erased):
        why = f"by deletion {deletion_id}" if deletion_id else "by no deletion"
        say(f"Erased: the payloads of {count} events of {project_id}, {why}. Their hashes still verify.")
    if newer:
        say(f"Not read: the payloads of {newer} events of a later release. Their hashes still verify.")
    say(f"Not proven to those without a checkpoint of their own: {'; '.join(NOT_PROVEN)}.")
