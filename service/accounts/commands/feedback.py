"""Feedback of people: kept once for each kind and fingerprint, and counted (G-063, G-158)."""

from __future__ import annotations

import msgspec

from projections.accounts.feedback import FEEDBACK, FEEDBACK_COUNTS, FeedbackRow
from schemas.accounts.feedback import SendFeedback
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from statemachines.accounts import person as people
from statemachines.accounts.feedback import MOST_DETAILS, feedback_id, require_room
from statemachines.kernel.telling import holds_own_secret


def check(wish: SendFeedback, schema: dict[str, object]) -> None:
    """Refuse texts with a credential of this service, and long details. Raises InvalidPayload with the schema."""
    details = b"" if wish.details is msgspec.UNSET else msgspec.json.encode(wish.details)
    texts = {name: getattr(wish, name) for name in ("fingerprint", "title", "body_md", "operation", "request_id")}
    texts["details"] = details.decode()
    faults = [
        (name, "must not hold a credential of this service")
        for name, text in texts.items()
        if isinstance(text, str) and holds_own_secret(text)
    ]
    if len(details) > MOST_DETAILS:
        faults.append(("details", f"must be {MOST_DETAILS:,} bytes of JSON at most"))
    if faults:
        raise InvalidPayload("The feedback cannot be kept.", invalid=faults, schema=schema)


def send(user_id: str, wish: SendFeedback) -> Intent[FeedbackRow]:
    """Keep feedback of a person, or count a repeat. Raises TooMuchFeedback.

    A fence of the person: rivals for the last place come one after the other.
    """
    person, name = people.stream(user_id), feedback_id(user_id, wish.kind, wish.fingerprint)

    def decide(unit: Unit) -> FeedbackRow:
        known, count = unit.row(FEEDBACK, user_id, name), unit.row(FEEDBACK_COUNTS, user_id, user_id)
        if known is None:
            require_room(count.kept if count else 0)
            row = _row(user_id, name, wish, unit.now)
        else:
            row = msgspec.structs.replace(known, occurrences=known.occurrences + 1, last_at=unit.now)
        unit.put(person, FEEDBACK, row)
        return row

    lookups = [Lookup(FEEDBACK, user_id, name), Lookup(FEEDBACK_COUNTS, user_id, user_id)]
    return Intent([person], decide, lookups=lookups, fence=user_id, saves=True)


def _row(user_id: str, name: str, wish: SendFeedback, now: int) -> FeedbackRow:
    return FeedbackRow(
        project_id=user_id,
        id=name,
        kind=wish.kind,
        fingerprint=wish.fingerprint,
        title=wish.title,
        body_md=wish.body_md or None,
        severity=wish.severity or None,
        about_project=wish.project_id or None,
        operation=wish.operation or None,
        request_id=wish.request_id or None,
        details=None if wish.details is msgspec.UNSET else msgspec.json.encode(wish.details).decode(),
        occurrences=1,
        created_at=now,
        last_at=now,
    )
