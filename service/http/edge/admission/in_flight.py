"""How many requests of one credential, and of all without one, a process carries out at once (threat 20, G-204).

Counted by what was presented, before anything is read: one caller that floods the process is refused before it takes a
connection, and leaves room for the others. A dictionary of what is running now, so that it never grows past that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from service.auth.authenticator import presented
from service.auth.refusals import ServiceUnavailable, Unauthenticated
from service.auth.secrets import Dsn
from service.fairness.turns import place_of
from service.http.edge.answer.errors import RateLimited
from service.http.edge.declare.operations import Operation


class InFlight:
    """The counts of one process; each credential may have `most` requests in flight."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._running)

    def enter(self, credential: str) -> None:
        """Count a request in. Raises RateLimited when the credential has as many as it may."""
        running = self._running.get(credential, 0)
        if running >= self._most:
            raise RateLimited(
                "This credential has too many requests in flight.",
                next_action=("Wait for the seconds in Retry-After, then retry with fewer requests at a time."),
                max_in_flight=self._most,
            )
        self._running[credential] = running + 1

    def leave(self, credential: str) -> None:
        """Count a request out that was counted in."""
        left = self._running[credential] - 1
        if left:
            self._running[credential] = left
        else:
            del self._running[credential]


class Crowd:
    """The requests of one process with a shared place: `most` of each place, `of_member` of one member.

    They wait for one turn together, so without a bound their waiting would fill the process. NOBODY is not counted.
    """

    def __init__(self, most: int, of_member: int) -> None:
        self._most = most
        self._of_member = of_member
        self._running: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._running)

    def check(self, tenant: str, more: int = 0) -> None:
        """Raise ServiceUnavailable when with so many more a place, or its member's part of it, were too full."""
        place = self._running[place_of(tenant)] if tenant else 0
        if place + more > self._most or self._running[tenant] + more > self._of_member:
            raise ServiceUnavailable

    def add(self, tenant: str, number: int) -> None:
        """Count requests in, or with a negative number out."""
        if not tenant:
            return
        for name in (place_of(tenant), tenant):
            self._running[name] += number
            if not self._running[name]:
                del self._running[name]


def shown_in(operation: Operation, headers: Mapping[str, str], query: Mapping[str, str | Sequence[str]]) -> Dsn | None:
    """The secret that a request presents; None when there is none, or more than one."""
    try:
        return presented(operation, headers, query)
    except Unauthenticated:
        return None
