"""Refusals of reads of a provider that are no queries (G-095)."""

from __future__ import annotations

from service.analytics.refusals import unanswered
from service.auth.refusals import Refusal, refusal
from statemachines.kernel.readings import ReadFailed


def unread(failed: ReadFailed) -> Refusal:
    """The refusal after a failed read. A page of a list has no window to make shorter."""
    return refusal("upstream_error") if failed.cause == "too_much" else unanswered(failed)
