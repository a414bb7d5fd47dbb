"""`service cases`: what a version of the grouping would make of stored errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from service.cli.shared.common import connection, json_option, print_json, say

if TYPE_CHECKING:
    from service.ingest.grouping.regroup import RegroupedPart

SHOWN = 10


@click.group()
def cases() -> None:
    """Look at how errors are grouped into cases."""


@cases.command()
@click.argument("project")
@click.option("--dry-run", is_flag=True, required=True, help="Change nothing. There is no other way to run this.")
@click.option("--version", "version", type=int, help="Version of the grouping. Default: the newest.")
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True, help="How far to look back.")
@json_option
def regroup(project: str, dry_run: bool, version: int | None, days: int, as_json: bool) -> None:  # noqa: ARG001
    """Show which cases of PROJECT a version of the grouping would join or split.

    The command regroups the stored errors in memory, and shows examples. Cases keep their errors whatever it finds.
    """
    from service.cli.shared.lookups import require_project
    from service.ingest.grouping import regroup as regrouping
    from service.ingest.grouping.fingerprint import GROUPINGS

    wanted = max(GROUPINGS) if version is None else version
    if wanted not in GROUPINGS:
        raise click.UsageError(f"There is no version {wanted}. There are: {', '.join(map(str, GROUPINGS))}")
    with connection() as opened:
        opened.read_only = True
        require_project(opened, project)
        errors = regrouping.stored_errors(opened, project, days)
        found = regrouping.regroup(errors, wanted)
    if as_json:
        print_json(found)
        return
    say(f"Version {found.version} of the grouping, {found.errors} errors in {found.cases} cases.")
    if not found.complete:
        say("There are more errors. Look at fewer days to see all of them.")
    for what, lists in (("join", found.joined), ("split", found.split)):
        say(f"It would {what} {len(lists)}:" if lists else f"It would {what} nothing.")
        for parts in lists[:SHOWN]:
            _show(parts)
        if len(lists) > SHOWN:
            say(f"  … and {len(lists) - SHOWN} more. --json lists all.")


def _show(parts: list[RegroupedPart]) -> None:
    """Print parts that belong together, each with an example."""
    for number, part in enumerate(parts[:SHOWN]):
        mark = "-" if number == 0 else " "
        say(f"  {mark} {part.case_id}  {part.errors} errors by {part.decided_by}: {part.example.splitlines()[0][:80]}")
    if len(parts) > SHOWN:
        say(f"    … and {len(parts) - SHOWN} more")
