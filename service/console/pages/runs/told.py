"""Words and marks of runs, requests and grants, for all pages."""

from __future__ import annotations

import re
from collections.abc import Mapping

STATUSES = ("draft_pr_opened", "verifying", "succeeded", "failed", "escalated", "cancelled")
KINDS: Mapping[str, str] = {
    "succeeded": "good",
    "approved": "good",
    "settled": "good",
    "consumed": "good",
    "no_recurrence": "good",
    "failed": "bad",
    "escalated": "bad",
    "rejected": "bad",
    "recurred": "bad",
    "unresolved": "bad",
    "invalidated": "bad",
    "cancelled": "",
    "expired": "",
    "revoked": "",
    "closed": "",
    "insufficient_traffic": "bad",
}
OVER = frozenset({"succeeded", "failed", "escalated", "cancelled"})


def kind_of(status: str) -> str:
    """The mark of a status. An open one waits."""
    return KINDS.get(status, "wait")


def words(name: str) -> str:
    """A name of the interface as a person reads it."""
    plain = name.replace("_", " ").strip()
    return re.sub(
        r"\b(pr|ci)\b", lambda found: found[0].upper(), f"{plain[:1].upper()}{plain[1:]}", flags=re.IGNORECASE
    )
