"""`service pause` and `service resume`: the stop of every automation of the installation (G-148)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from service.cli.shared.common import advised, json_option, print_json, progress, say, with_store

if TYPE_CHECKING:
    from service.contracts.contract import StopTally
    from service.eventstore.store import EventStore
    from service.history.audit import Report
    from service.runs.sweep import StartedGrant

MOST_EFFECTS = 10_000  # that are named
MOST_WHY = 500


@click.command()
@click.option("--all", "everything", is_flag=True, required=True, help="Every automation of this installation.")
@click.option("--why", required=True, help="Reason to record with each stop.")
@json_option
def pause(everything: bool, why: str, as_json: bool) -> None:  # noqa: ARG001 - click requires the flag
    """Stop every automation. Exits with 0 when all are off. Nobody can enable one until `service resume`."""
    if not why.strip() or not why.isprintable() or len(why) > MOST_WHY:
        raise click.BadParameter(f"1 to {MOST_WHY} characters, none of them a control", param_hint="--why")
    with progress("Contracts") as report:
        tally, effects = with_store(lambda store: _stop(store, why, report))
    if as_json:
        print_json(
            {
                "since": tally.stop.since,
                "paused": tally.paused,
                "not_stopped": tally.not_stopped,
                "effects_started": effects[:MOST_EFFECTS],
                "effects_truncated": len(effects) > MOST_EFFECTS,
            }
        )
    else:
        _print(tally, effects)
    if tally.not_stopped:
        raise SystemExit(1)


async def _stop(store: EventStore, why: str, report: Report) -> tuple[StopTally, list[StartedGrant]]:
    from service.contracts.contract import stop_installation
    from service.runs.sweep import started_anywhere

    tally = await stop_installation(store, why, report)
    return tally, await started_anywhere(store, limit=MOST_EFFECTS + 1)


def _print(tally: StopTally, effects: list[StartedGrant]) -> None:
    """Say what was stopped, what had begun, and what could not be stopped."""
    say(
        advised(
            f"Stopped. {len(tally.paused)} contracts were paused. None can be enabled until `service resume --all`."
        )
    )
    for effect in effects[:MOST_EFFECTS]:
        say(
            f"Begun before, and not stopped: {effect.kind} of {effect.run_id} in {effect.project_id} "
            f"({effect.grant_id}, {effect.status}). CI can still prove it."
        )
    if len(effects) > MOST_EFFECTS:
        say(f"Only the first {MOST_EFFECTS} of these calls are listed.")
    for project_id, reason in tally.not_stopped:
        say(f"Not stopped: {project_id} ({reason}).", err=True)


@click.command()
@click.option("--all", "everything", is_flag=True, required=True, help="The stop of this installation.")
@json_option
def resume(everything: bool, as_json: bool) -> None:  # noqa: ARG001 - click requires the flag
    """Lift the stop of the installation. Each contract stays paused until its owner enables it again."""
    from service.contracts.contract import resume_installation

    stop = with_store(resume_installation)
    if as_json:
        print_json({"status": stop.status.value, "since": stop.since})
    else:
        say("Lifted. Each contract stays paused until its owner reviews and enables it.")
