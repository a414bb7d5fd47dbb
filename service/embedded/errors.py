"""What goes wrong with the embedded server."""

from __future__ import annotations


class EmbeddedError(Exception):
    """The embedded server cannot be made, started or reached; the message says why and what to do."""
