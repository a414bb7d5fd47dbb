"""`service demo`: the whole flow with a small real product."""

from __future__ import annotations

import signal
import sys

import click


@click.command()
def demo() -> None:
    """Carry a small product through the whole job over HTTP, on a database of its own, and leave nothing running."""
    from service.demo.stage import DemoFailed
    from service.demo.story import run

    # Ending the demo ends what it started: leaving `run` stops every one of its processes.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    try:
        run()
    except DemoFailed as failure:
        raise click.ClickException(str(failure)) from None
