"""Refusals of questions without an answer (G-006, G-151)."""

from __future__ import annotations

from typing import Final

from service.analytics.connecting.http import Throttled
from service.auth.refusals import InvalidPayload, Refusal, ServiceUnavailable, refusal
from statemachines.kernel.readings import ReadFailed

RETRY_AFTER: Final = "5"


class QueriesBusy(Refusal):
    """No turn came in time: others are being answered, or another question of the same account is (G-151)."""

    code = "rate_limited"

    def __init__(self) -> None:
        super().__init__(
            "Too many queries are running or waiting.",
            next_action="Wait for the others to end, and send one query at a time.",
            headers={"retry-after": RETRY_AFTER},
        )


class NoProvider(InvalidPayload):
    """Only a connected provider answers this, and the project has none."""

    def __init__(self) -> None:
        super().__init__(
            "A query text is answered by a connected provider, and this project has none.",
            invalid=[("query", "must be left out: ask with source and select, or connect a provider")],
        )


class ProviderRefusedQuery(InvalidPayload):
    """The connected provider does not accept the query of the caller."""

    def __init__(self, member: str) -> None:
        super().__init__(
            "The analytics provider does not accept this query.",
            invalid=[(member, "must be a query that the provider accepts: its names, functions and types are its own")],
        )


class BlueprintNotFound(Refusal):
    """There is no query blueprint of this id."""

    code = "blueprint_not_found"


def unanswered(failed: ReadFailed) -> Refusal:
    """The refusal of a request after a failed read: nothing is known, so the answer is not empty."""
    if failed.cause == "too_much":
        return InvalidPayload(
            "The window holds more than one query reads.", invalid=[("from", "must be later, or the window shorter")]
        )
    if isinstance(failed, Throttled):
        return ServiceUnavailable(
            "The analytics provider takes no requests just now.",
            next_action="Retry after the seconds in Retry-After.",
            headers={"retry-after": str(failed.retry_after)},
        )
    return refusal("upstream_timeout" if failed.cause == "timeout" else "upstream_error")
