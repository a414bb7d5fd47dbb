"""`service import`: what other error trackers exported, over HTTP with the key of an owner."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from service.cli.shared.common import json_option, owner_key, print_json, progress, say

if TYPE_CHECKING:
    from schemas.cases.foreign import EventsImported
    from service.cli.shared.contract_file import Remote
    from service.cli.shared.exported import ExportLine, ImportPlace

COUNTS = ("imported", "already_there", "too_old", "malformed", "issues", "skipped")
WORDS = {
    "imported": "imported",
    "already_there": "there already",
    "too_old": "older than the retention",
    "malformed": "malformed",
    "issues": "issues with a state",
    "skipped": "neither an event nor an issue",
}
PATIENCE = (1, 2, 4, 8, 15, 30, 30)
"""Seconds between the tries of a batch while the service is busy, or limits the key."""


@click.group("import")
def import_() -> None:
    """Bring what another error tracker has exported."""


@import_.command("sentry-events")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--project", "project_id", required=True, metavar="ID", help="Project of the cases.")
@click.option(
    "--url",
    envvar="SERVICE_URL",
    default="http://127.0.0.1:8000",
    show_default=True,
    help="Address of the service, https unless it is this machine. SERVICE_URL sets it too.",
)
@click.option("--dry-run", is_flag=True, help="Judge each event, and store nothing.")
@json_option
def sentry_events(file: Path, project_id: str, url: str, dry_run: bool, as_json: bool) -> None:
    """Import the events and the states of issues in FILE with SERVICE_API_KEY.

    FILE has a JSON object on each line: an event or an issue, as the API of Sentry, GlitchTip or Bugsink shows it, or
    an event as an SDK sent it. It may have 1 GiB. Each event is stored once, so the command can be run again. After
    an interruption it goes on where it was, by FILE.progress.

    Exit code: 0 all lines were judged, 1 refused, 2 used wrongly.
    """
    from service.cli.shared.contract_file import ApplyRefused, BadAddress, Remote, check_address
    from service.cli.shared.exported import MAX_FILE, BadExport, ImportPlace, states_in

    if file.stat().st_size > MAX_FILE:
        raise click.BadParameter("A file may have 1 GiB. Split it by lines.", param_hint="FILE")
    try:
        remote = Remote(check_address(url), owner_key(), project_id)
    except BadAddress as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    place = ImportPlace.of(file, project_id, url)
    try:
        states = states_in(file)
        if not dry_run:
            place.resume()
        if place.offset:
            say(f"Going on at byte {place.offset}.", err=True)
        _send(file, place, states, remote, dry_run=dry_run)
    except BadExport as error:
        raise click.ClickException(f"{file}: {error}") from None
    except ApplyRefused as refusal:
        told = f"{refusal} Run the command again: it goes on where it was."
        raise click.ClickException(str(refusal) if dry_run else told) from None
    finally:
        remote.close()
    if not dry_run:
        place.forget()
    _tell(place.counts, dry_run=dry_run, as_json=as_json)


def _send(file: Path, place: ImportPlace, states: dict[str, str], remote: Remote, *, dry_run: bool) -> None:
    """Send the rest of a file batch by batch, and keep the place after each."""
    from service.cli.shared.exported import batches

    with progress("Bytes") as tell:
        for batch in batches(file, place.offset, states):
            counts = Counter[str](line.kind for line in batch.lines if line.kind != "event")
            counts += _send_batch([line for line in batch.lines if line.kind == "event"], remote, dry_run=dry_run)
            place.move(batch.end, counts, keep=not dry_run)
            tell(batch.end, place.size)


def _send_batch(lines: list[ExportLine], remote: Remote, *, dry_run: bool) -> Counter[str]:
    """Send events, again and again while the service is busy; returns how many have which outcome."""
    from service.cli.shared.contract_file import ApplyRefused

    if not lines:
        return Counter()
    body = {"events": [{"event": line.text, "state": line.state} for line in lines], "dry_run": dry_run}
    for pause in (*PATIENCE, None):
        try:
            told: EventsImported = remote.import_events(body)
            return Counter(one.outcome for one in told.events)
        except ApplyRefused as refusal:
            if pause is None or refusal.code not in {"rate_limited", "service_unavailable"}:
                raise
            time.sleep(pause)
    raise AssertionError("the last try answers or raises")


def _tell(counts: Counter[str], *, dry_run: bool, as_json: bool) -> None:
    """Print how many lines had which outcome."""
    if as_json:
        print_json({"dry_run": dry_run, **{name: counts[name] for name in COUNTS}})
        return
    for name in COUNTS:
        if counts[name] or name == "imported":
            say(f"{counts[name]:>9,}  {WORDS[name]}")
    if dry_run:
        say("Nothing was stored.")
    elif counts["imported"]:
        say("Their cases have the trust `imported` until an error arrives by a DSN.")
