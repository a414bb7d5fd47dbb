"""A body of PostHog's SDKs, cut into its events while its pieces arrive (G-206). Pure.

Brackets and strings alone tell the end of an event. Its reader finds out if it is JSON, so a broken one costs no other.
Beside the events only the key and the time of sending are read, wherever they stand.
"""

import base64
import binascii
import re
from collections.abc import Generator
from urllib.parse import unquote_to_bytes

from service.ingest.foreign import posthog
from service.ingest.foreign.envelope import NOTHING, PieceReader, TextEnded, Waits

_SPACE = re.compile(rb"[ \t\r\n]*+")
# A string that does not end in what is here goes on in the next piece, without a backslash that may escape its begin.
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?P<end>")?|[\[{]|[\]}]', re.DOTALL)
_REST = re.compile(rb'(?:[^"\\]++|\\.)*+(?P<end>")?', re.DOTALL)
_PLAIN = re.compile(rb'[^ \t\r\n,:"\[\]{}]*+')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_QUOTE, _COMMA, _COLON, _OPEN, _CLOSE, _OBJECT, _OBJECT_END = b'",:[]{}'

FORM = b"data="
_ESCAPE = 3  # bytes of one
_QUARTET = 4
_NO_BASE64 = "the field data must hold base64"


class EventCutter(PieceReader):
    """Cuts a text into events. `take` returns the whole ones so far, with None for one too large.

    At most `most` events are cut, and `more` tells of others behind them. `largest` is the most bytes of one. `sent`
    names their sender, once the text is read. With `counts` they are only counted.
    """

    def __init__(self, most: int, largest: int, *, counts: bool = False) -> None:
        self.count = 0
        self.more = False
        self.sent: posthog.Sent | None = None
        self._most = most
        self._largest = largest
        self._counts = counts
        self._events: list[bytes | None] = []
        self._kept = dict.fromkeys([*posthog.HOLD_KEYS, "sent_at", "sentAt"], posthog.MAX_KEY) | {"properties": largest}
        self._names: dict[str, bytes] = {}
        self._whole: list[bytes] | None = []  # the text as far as it may be one event alone
        super().__init__()

    def feed(self, piece: bytes) -> None:
        """Read a piece. Raises MalformedEvents."""
        if self._whole is not None:
            self._whole.append(piece)
            if sum(map(len, self._whole)) > 2 * self._largest:
                self._whole = None
        try:
            super().feed(piece)
        except TextEnded:
            raise _malformed() from None

    def end(self) -> None:
        """Say that nothing follows. Raises MalformedEvents."""
        try:
            super().end()
        except TextEnded:
            raise _malformed() from None

    def take(self) -> list[bytes | None]:
        """The events that are whole since the last time."""
        events, self._events = self._events, []
        return events

    def _read(self) -> Waits:
        first = yield from self._next()
        if first == _OPEN:
            self._whole = None
            first_key: list[str | None] = []
            yield from self._list(first_key)
            self.sent = posthog.Sent(first_key[0] if first_key else None, (), each=True)
        elif first == _OBJECT:
            listed = yield from self._object()
            if listed:
                self.sent = posthog.beside(self._names)
            else:
                yield from self._end()
                self._alone()
                return
        else:
            raise _malformed()
        yield from self._end()

    def _end(self) -> Waits:
        pieces = self._pieces
        while not (yield from pieces.ended()):
            space = _SPACE.match(pieces.text, pieces.at)
            assert space is not None
            pieces.at = space.end()
            if pieces.at < len(pieces.text):
                raise _malformed()

    def _alone(self) -> None:
        """Take the text as one event."""
        text = None if self._whole is None else b"".join(self._whole).strip()
        if text is None or len(text) > self._largest:
            self._add(None)
            self.sent = posthog.beside(self._names, alone=True)
        else:
            self._add(text)
            self.sent = posthog.open_alone(text)

    def _add(self, event: bytes | None) -> None:
        self.count += 1
        if not self._counts:
            self._events.append(event)

    def _next(self) -> Generator[None, None, int]:
        """The next byte but for space. Raises TextEnded."""
        pieces = self._pieces
        while True:
            space = _SPACE.match(pieces.text, pieces.at)
            assert space is not None
            pieces.at = space.end()
            if pieces.at < len(pieces.text):
                return pieces.text[pieces.at]
            yield from pieces.more()

    def _object(self) -> Generator[None, None, bool]:
        """Go over the members of the body. Returns whether the events are among them."""
        pieces, listed = self._pieces, False
        pieces.at += 1
        if (yield from self._next()) == _OBJECT_END:
            pieces.at += 1
            return False
        while True:
            if (yield from self._next()) != _QUOTE:
                raise _malformed()
            name = posthog.name_of((yield from self._value(posthog.MAX_KEY)))
            if (yield from self._next()) != _COLON:
                raise _malformed()
            pieces.at += 1
            first = yield from self._next()
            if name == "batch":
                if listed or first != _OPEN:
                    raise _malformed()
                listed, self._whole = True, None
                yield from self._list(None)
            else:
                kept = yield from self._value(self._kept.get(name, NOTHING))
                if kept is not None:
                    self._names[name] = kept
            after = yield from self._next()
            pieces.at += 1
            if after == _OBJECT_END:
                return listed
            if after != _COMMA:
                raise _malformed()

    def _list(self, key_of_first: list[str | None] | None) -> Waits:
        pieces = self._pieces
        pieces.at += 1
        if (yield from self._next()) == _CLOSE:
            pieces.at += 1
            return
        while True:
            if self.count == self._most:
                self.more = True
                yield from self._to_end(1)
                return
            yield from self._next()
            asked = key_of_first == []
            event = yield from self._value(self._largest if asked or not self._counts else NOTHING)
            if asked and key_of_first is not None:
                key_of_first.append(None if event is None else posthog.open_alone(event).key)
            self._add(event)
            after = yield from self._next()
            pieces.at += 1
            if after == _CLOSE:
                return
            if after != _COMMA:
                raise _malformed()

    def _value(self, keep: int) -> Generator[None, None, bytes | None]:
        """Go over the value at this place. Returns its text, None when it is more than `keep` bytes."""
        pieces = self._pieces
        pieces.begin(keep)
        first = pieces.text[pieces.at]
        if first == _QUOTE or first in _STEPS:
            yield from self._to_end(0)
        else:
            while True:
                plain = _PLAIN.match(pieces.text, pieces.at)
                assert plain is not None
                pieces.at = plain.end()
                if pieces.at < len(pieces.text):
                    break
                yield from pieces.more()
            if pieces.mark == pieces.at:
                raise _malformed()
        return pieces.taken()

    def _to_end(self, depth: int) -> Waits:
        """Go behind the string, or behind the bracket `depth` levels up."""
        pieces = self._pieces
        while True:
            for token in _TOKENS.finditer(pieces.text, pieces.at):
                first = pieces.text[token.start()]
                pieces.at = token.end()
                if first == _QUOTE:
                    if token["end"] is None:
                        yield from self._string()
                        break
                else:
                    depth += _STEPS[first]
                if depth <= 0:
                    return
            else:
                pieces.at = len(pieces.text)
                yield from pieces.more()
                continue
            if depth <= 0:
                return

    def _string(self) -> Waits:
        """Go behind the string that has begun."""
        pieces = self._pieces
        while True:
            yield from pieces.more()
            rest = _REST.match(pieces.text, pieces.at)
            assert rest is not None
            pieces.at = rest.end()
            if rest["end"] is not None:
                return


class FormText:
    """The JSON text of a form with one field, in base64 or as it is, a piece at a time. Of any other body, itself."""

    def __init__(self) -> None:
        self._held = b""
        self._is_form: bool | None = None
        self._is_base64: bool | None = None
        self._quartet = b""  # the begin of one
        self._padded = False
        self._over = False

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        """The text in a piece. Raises MalformedEvents."""
        if self._is_form is None:
            piece = self._held + piece
            if len(piece) < len(FORM) and not last:
                self._held = piece
                return b""
            self._held, self._is_form = b"", piece.startswith(FORM)
            piece = piece.removeprefix(FORM)
        if not self._is_form:
            return piece
        value = self._unescaped(piece, last=last)
        if self._is_base64 is None:
            if not (value := value.lstrip()):
                return b""
            self._is_base64 = value[:1] not in {b"{", b"["}
        return self._of_base64(value, last=last) if self._is_base64 else value

    def _unescaped(self, piece: bytes, *, last: bool) -> bytes:
        if self._over:
            return b""
        value, ends, _ = piece.partition(b"&")
        value = self._held + value.replace(b"+", b" ")
        self._over, self._held = bool(ends), b""
        cut = value.rfind(b"%", max(0, len(value) - _ESCAPE + 1))
        if cut >= 0 and not (last or ends):
            value, self._held = value[:cut], value[cut:]
        return unquote_to_bytes(value)

    def _of_base64(self, value: bytes, *, last: bool) -> bytes:
        value = self._quartet + value.replace(b" ", b"+")  # which is what a sender meant that did not escape it
        cut = len(value) if last else len(value) // _QUARTET * _QUARTET
        value, self._quartet = value[:cut], value[cut:]
        if value and self._padded:
            raise posthog.MalformedEvents(_NO_BASE64)
        self._padded = self._padded or value.endswith(b"=")
        try:
            return base64.b64decode(value + b"=" * (-len(value) % _QUARTET), validate=True)
        except binascii.Error:
            raise posthog.MalformedEvents(_NO_BASE64) from None


def _malformed() -> posthog.MalformedEvents:
    return posthog.MalformedEvents(posthog.NO_EVENTS)
