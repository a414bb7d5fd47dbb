"""What a decision raises when it cannot be taken on what was declared for it."""

from __future__ import annotations


class Moved(Exception):
    """What a handler looked up is no longer what the locked states say: look up again. Never shown to a client."""
