"""`service events`: reading, exporting and verifying the history."""

from __future__ import annotations

import click


@click.group()
def events() -> None:
    """Read, export and verify the history."""
