"""What a decision raises when it was given the wrong streams: those that it needs were looked up before the locks."""

from __future__ import annotations


class Moved(Exception):
    """What was looked up is no longer what the locked states say: look up again. Never shown to a client."""
