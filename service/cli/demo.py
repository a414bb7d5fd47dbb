"""`service demo`: the whole flow with a small real product."""

import signal
import sys
from pathlib import Path

import click

from service.cli.shared.common import say


@click.command()
@click.option("--keep", is_flag=True, help="Leave the project and the service running until Ctrl-C, with a link to it.")
@click.option("--verbose", is_flag=True, help="Show every step, request and answer.")
@click.option(
    "--transcript",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="File for every step, request and answer, with bodies and without secrets.",
)
def demo(keep: bool, verbose: bool, transcript: Path | None) -> None:
    """Carry a small product through the whole job over HTTP, on a separate database, and clean up."""
    from service.demo.story import Interrupted, run
    from service.testing.shop import WorldFailed

    # Ending the demo ends what it started: leaving `run` stops every one of its processes.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    try:
        run(verbose=verbose, transcript=transcript, keep=keep)
    except WorldFailed as failure:
        raise click.ClickException(str(failure)) from None
    except Interrupted as interrupted:
        say(f"\n{interrupted}", err=True)
        raise SystemExit(interrupted.code) from None
