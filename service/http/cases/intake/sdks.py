"""SDKs of others as the edge has to know them: where a body has the key, and how they are told to wait (G-142)."""

from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus

from schemas.cases.foreign import MAX_EVENT_BYTES, MAX_EVENTS
from service.auth import secrets
from service.auth.refusals import InvalidPayload
from service.http.answer.errors import Failure
from service.http.declare.forms import Query, Sdk
from service.ingest.foreign import envelope, posthog
from service.ingest.foreign.event_cutter import EventCutter, FormText

MAX_SAID = 200  # characters of a refusal in a header


class _SentryKey:
    """The key of the DSN in the headers of an envelope, as a tunnel sends it."""

    key: str | None = None

    def feed(self, piece: bytes) -> bool:
        """Look at the first piece. It has the headers."""
        with suppress(envelope.MalformedEnvelope):
            header = envelope.read_header(piece)
            self.key = None if header.dsn is None else secrets.key_of_dsn(header.dsn)
        return True

    def close(self) -> None:
        """It waits for nothing."""


def _sentry_told(failure: Failure) -> Mapping[str, str]:
    """Why, and while too much comes how long every kind of item has to wait."""
    told = {"x-sentry-error": failure.message[:MAX_SAID]}
    if failure.status == HTTPStatus.TOO_MANY_REQUESTS:
        told["x-sentry-rate-limits"] = f"{failure.headers['retry-after']}::key:{failure.code}"
    return told


def _sentry_coding(_query: Query) -> str:
    return ""


class PosthogEvents:
    """The events of a body and whose they are: its `sent`, complete once the body is read, and its `key`.

    A body in one piece is opened as a whole. With `counts` its events are only counted, and of a whole body the key
    alone is read.
    """

    def __init__(self, *, counts: bool = False) -> None:
        self.key: str | None = None
        self.sent: posthog.Sent | None = None
        self.count = 0
        self.more = False
        self._counts = counts
        self._first: bytes | None = None
        self._form = FormText()
        self._cutter: EventCutter | None = None

    def feed(self, piece: bytes) -> list[bytes | None] | None:
        """The events that end in a piece, an empty one at the end. None for one that is too large.

        Raises InvalidPayload, also for a body without JSON (G-175).
        """
        try:
            return self._cut(piece)
        except posthog.MalformedEvents as fault:
            raise malformed_events(fault) from None

    def close(self) -> None:
        """Give up the unread rest."""
        if self._cutter is not None:
            self._cutter.close()

    def _cut(self, piece: bytes) -> list[bytes | None] | None:
        if self._cutter is None:
            if piece and self._first is None:
                self._first = piece
                return None
            if not piece:
                return self._open(self._first or b"")
            self._cutter = EventCutter(MAX_EVENTS, MAX_EVENT_BYTES, counts=self._counts)
            self._cutter.feed(self._form.feed(self._first or b""))
            self._first = None
        cutter = self._cutter
        cutter.feed(self._form.feed(piece, last=not piece))
        if not piece:
            cutter.end()
            assert cutter.sent is not None, "it is read to its end"
            self.sent, self.key, self.count, self.more = cutter.sent, cutter.sent.key, cutter.count, cutter.more
        return cutter.take()

    def _open(self, raw: bytes) -> list[bytes | None] | None:
        if self._counts:
            self.key = posthog.key_of(raw)
            return None
        self.sent = sent = posthog.cut(raw, MAX_EVENTS)
        self.key, self.count, self.more = sent.key, len(sent.events), sent.more
        return list(sent.events)


class PosthogKey(PosthogEvents):
    """A search for the key, which may stand behind the events."""

    def __init__(self) -> None:
        super().__init__(counts=True)

    def feed(self, piece: bytes) -> None:
        """Look at the next piece. Raises as that of all events."""
        super().feed(piece)


def unacceptable(reason: str) -> InvalidPayload:
    """The refusal of a body, or an item, of a Sentry SDK."""
    return InvalidPayload("The body does not follow Sentry's protocol.", invalid=[("", reason)])


def malformed_events(fault: posthog.MalformedEvents) -> InvalidPayload:
    """The refusal of a body, or an event, of a PostHog SDK."""
    return InvalidPayload("The body is not in the format of PostHog's SDKs.", invalid=[("", str(fault))])


def _posthog_told(_failure: Failure) -> Mapping[str, str]:
    """Nothing: they go by the status and by Retry-After."""
    return {}


def _posthog_coding(query: Query) -> str:
    return "gzip" if set(query.get("compression", ())) & {"gzip", "gzip-js"} else ""


POSTHOG = Sdk(secrets.POSTHOG, PosthogKey, _posthog_told, _posthog_coding, ("compression",))
SENTRY = Sdk(secrets.SENTRY, _SentryKey, _sentry_told, _sentry_coding, ("sentry_key",))
