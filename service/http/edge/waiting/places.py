"""How many requests wait or stream at once: in one process, and of one account in it."""

from __future__ import annotations

from service.http.edge.answer.errors import RateLimited


class AccountPlaces:
    """At most `total` places, and `per_account` for one account. Keeps nothing of accounts without any."""

    def __init__(self, total: int, per_account: int) -> None:
        self._total = total
        self._per_account = per_account
        self._taken: dict[str, int] = {}
        self.taken = 0

    def enter(self, account: str) -> None:
        """Take a place. Raises RateLimited when the account or the process has none left."""
        taken = self._taken.get(account, 0)
        if taken >= self._per_account:
            raise RateLimited(
                "This account has too many requests that wait or stream.",
                next_action="End one of them, or poll without wait.",
                max_waiting=self._per_account,
            )
        if self.taken >= self._total:
            raise RateLimited(
                "Too many requests wait or stream.",
                next_action="Wait for the seconds in Retry-After, or poll without wait.",
                max_waiting=self._total,
            )
        self.taken += 1
        self._taken[account] = taken + 1

    def leave(self, account: str) -> None:
        """Give a place back."""
        self.taken -= 1
        left = self._taken.pop(account) - 1
        if left:
            self._taken[account] = left
