"""Another host: nothing leads there but the text of telemetry and a redirect. Each request to it is a finding."""

from __future__ import annotations

from service.conformance.wire.listener import Given, Heard, LoopbackServer


class Elsewhere:
    """A trap, and what fell into it."""

    def __init__(self) -> None:
        self.visits: list[Heard] = []
        self._listener = LoopbackServer(self._serve)
        self.url = self._listener.url

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self, asked: Heard) -> Given:
        self.visits.append(asked)
        return Given.of(200, {})
