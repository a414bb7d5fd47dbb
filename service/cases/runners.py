"""What a runner sees of a case beyond its counts: the stack of the latest error, and no person (G-176, G-137).

Values of variables, the request, breadcrumbs, contexts and the user are for members. Addresses of people are hidden in
every text that telemetry brings. Pure functions.
"""

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any

import msgspec

from schemas.cases.case import CASE_ORIGINS, CaseLatestEvent, CaseRecord
from schemas.cases.event import EventError, EventException
from service.cases import event

HIDDEN = "[address]"
_OF_FRAME = (
    *("file", "filename", "abs_path", "module", "package", "function", "symbol", "instruction_addr", "in_app"),
    *("line", "lineno", "column", "colno", "pre_context", "context_line", "post_context"),
)
_OF_PERSON = ("email", "ip_address", "username")
_SHORTEST = 4
"""Characters of a person's name that is looked for in other texts."""
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]++@(?:\w[\w-]{0,62}\.){1,8}[^\W\d_]{2,24}(?![\w-])")


def record(shown: CaseRecord, stored: event.EventRow | None) -> CaseRecord:
    """A case without the addresses of people in its texts, and with the stack of its latest error."""
    known = _addresses(stored)
    culprit, told = shown.culprit, shown.latest_event
    return msgspec.structs.replace(
        shown,
        title=_hidden(shown.title, known),
        message=_hidden(shown.message, known),
        culprit=culprit and _hidden(culprit, known),
        tags=_tags(shown.tags, known),
        latest_event=told and _latest(told, stored, known),
        origins=CASE_ORIGINS,  # of the stack as well
    )


def _latest(told: CaseLatestEvent, stored: event.EventRow | None, known: Iterable[str]) -> CaseLatestEvent:
    user_id = told.user_id
    exception = told.exception
    if isinstance(exception, EventException):
        exception = _exception(exception, known)
    elif stored is not None:
        sent = event.event(stored, event.said_in(stored)).exception
        exception = sent and _exception(sent, known)
    return msgspec.structs.replace(
        told,
        message=_hidden(told.message, known),
        user_id=None if user_id is None or _is_address(user_id) else user_id,
        tags=_tags(told.tags, known),
        exception=exception,
    )


def _exception(sent: EventException, known: Iterable[str]) -> EventException:
    causes = sent.causes if isinstance(sent.causes, list) else []
    first, *others = [_error(one, known) for one in (sent, *causes)]
    return EventException(type=first.type, value=first.value, frames=first.frames, causes=others or msgspec.UNSET)


def _error(sent: EventError, known: Iterable[str]) -> EventError:
    frames = [
        {name: _value(frame[name], known) for name in _OF_FRAME if isinstance(frame.get(name), (str, int, list))}
        for frame in sent.frames
    ]
    return EventError(type=sent.type, value=sent.value and _hidden(sent.value, known), frames=frames)


def _value(value: Any, known: Iterable[str]) -> Any:
    if isinstance(value, str):
        return _hidden(value, known)
    return [_hidden(one, known) for one in value if isinstance(one, str)] if isinstance(value, list) else value


def _tags(tags: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    return {name: _hidden(value, known) for name, value in tags.items()}


def _addresses(stored: event.EventRow | None) -> list[str]:
    """How the person of an error may be reached, as the error says."""
    user = msgspec.json.decode(stored.user) if stored is not None and stored.user else None
    told = [user.get(name) for name in (*_OF_PERSON, "id")] if isinstance(user, dict) else []
    texts = [text for text in told if isinstance(text, str) and len(text) >= _SHORTEST]
    plain = user.get("id") if isinstance(user, dict) else None
    return [text for text in texts if text != plain or _is_address(text)]


def _is_address(text: str) -> bool:
    if _EMAIL.search(text) is not None:
        return True
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _hidden(text: str, known: Iterable[str]) -> str:
    for address in known:
        text = text.replace(address, HIDDEN)
    return _EMAIL.sub(HIDDEN, text) if "@" in text else text
