"""`service log`: the log as outsiders see it."""

from __future__ import annotations

import click


@click.group()
def log() -> None:
    """Show the signed log, and continue it after a restore."""
