"""What whoever waits in vain is told: nothing was done, and it may be tried again."""

from __future__ import annotations


class CommandNotDone(Exception):
    """The command certainly did not run (queue full, deadline, too many waiting): 503, safe to retry."""


class ReadNotDone(CommandNotDone):
    """A read had no turn or no end in time: 503 to its caller alone, safe to repeat."""
