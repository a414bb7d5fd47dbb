"""Notifications: whether a destination is told of an event now, later or not at all, and in which words.

The rules are those at the moment of the attempt. A rule counts while the member who made it belongs to the project.
When every rule for an occasion rests in quiet hours, or the subject was told of within the hour, the notification is
held. The first of a destination to be sent after that takes the others along in a digest, which counts them.

No message has a text of telemetry but the title of a case, which a project may switch off. It has no name of a person,
a project or an alert either.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from projections.notifications import RuleEntry
from projections.runs import APPROVALS, RUNS
from schemas.notifications import OCCASIONS
from service.cases.listing import listed_case
from service.eventstore.connect.facts import Facts
from service.eventstore.store import EventStore
from service.sql import load_query
from service.webhooks.mail import take_of_day
from service.webhooks.message import ChatMessage, laid_out
from service.webhooks.queueing import ToldEvent
from statemachines.accounts.membership import membership_id
from statemachines.contracts import cron
from statemachines.notifications import QuietHours

AN_HOUR = 3600
"""Seconds between two messages about one subject to a destination."""
TITLES = {
    "case.created": "New case",
    "case.regressed": "An error came back",
    "approval.requested": "A runner asks for an approval",
    "run.ended": "A run ended",
    "alert.triggered": "An alert was triggered",
    "automation.stopped": "Automation was stopped",
    "report.recorded": "A weekly report was recorded",
}
assert set(TITLES) == set(OCCASIONS)

_RULES = load_query("webhooks", "destination_rules")
_TAKE_TURN = load_query("webhooks", "take_turn")
_MERGE = load_query("webhooks", "merge_held")


class OnHold(NamedTuple):
    """A notification to look at again after so many seconds."""

    seconds: int


class Ready(NamedTuple):
    """The body of a message, and the membership by whose rule it is sent. Mail goes to `mail_to`, its member."""

    body: bytes
    membership_id: str
    mail_to: str | None = None


class Notifier:
    """Decides on notifications and composes them. `base_url` is where links lead."""

    def __init__(self, store: EventStore, facts: Facts, base_url: str) -> None:
        self._store = store
        self._facts = facts
        self._base_url = base_url

    async def judge(
        self, destination_id: str, told: ToldEvent, position: int, *, held: bool, fixed: bool
    ) -> Ready | OnHold | None:
        """Decide on a notification. None: nobody wants it any more, or its subject is gone.

        `held`: it was held before. `fixed`: its body is made already, so there is none here. Raises as reading and
        writing facts do.
        """
        about = {"project_id": told.project_id, "id": destination_id}
        async with self._facts.connection() as connection:
            rows = await (await connection.execute(_RULES, about)).fetchall()
        rules = [msgspec.convert(rule, RuleEntry) for *_, rule in rows]
        wanted = [rule for rule in rules if told.event in rule.events]
        if not wanted:
            return None
        kind, mail_to, titles, _ = rows[0]
        now = await self._store.now()
        quiet = [quiet_seconds(rule.quiet_hours, now) for rule in wanted]
        if all(quiet):
            return OnHold(min(quiet))
        membership = membership_id(told.project_id, wanted[quiet.index(0)].member_id)
        if fixed:
            return await self._within_day(Ready(b"", membership, mail_to), f"{destination_id}/{position}")
        if held:
            awake = {name for rule in rules if not quiet_seconds(rule.quiet_hours, now) for name in rule.events}
            message: ChatMessage | None = await self._digest(about, told, position, awake)
        else:
            async with self._facts.connection() as connection:
                turn = {**about, "subject_id": told.subject_id, "position": position, "seconds": AN_HOUR}
                [[rest]] = await (await connection.execute(_TAKE_TURN, turn)).fetchall()
            if rest:
                return OnHold(rest)
            message = await _MAKERS[told.event](self._store, self._base_url, told, titles=titles)
        if message is None:
            return None
        ready = Ready(laid_out(kind, message), membership, mail_to)
        return await self._within_day(ready, f"{destination_id}/{position}")

    async def _within_day(self, ready: Ready, delivery: str) -> Ready | OnHold:
        """A message as it is, or on hold when its person has had all mail of the day."""
        rest = 0 if ready.mail_to is None else await take_of_day(self._facts, ready.mail_to, delivery)
        return OnHold(rest) if rest else ready

    async def _digest(
        self, about: Mapping[str, str], told: ToldEvent, position: int, events: Iterable[str]
    ) -> ChatMessage | None:
        """The digest of what is held of some occasions. None: another digest has taken this one along."""
        values = {**about, "position": position, "events": list(events)}
        async with self._facts.connection() as connection:
            found = await (await connection.execute(_MERGE, values)).fetchall()
        return digest(self._base_url, told, found) if found else None


def quiet_seconds(quiet: QuietHours | None, now: int) -> int:
    """For how many seconds quiet hours still last. 0 outside of them."""
    if quiet is None:
        return 0
    moment = datetime.fromtimestamp(now, cron.zone(quiet.timezone))
    begins, ends = (_minutes(text) for text in (quiet.begins, quiet.ends))
    minute = moment.hour * 60 + moment.minute
    inside = begins <= minute < ends if begins < ends else minute >= begins or minute < ends
    if not inside:
        return 0
    end = moment.replace(hour=ends // 60, minute=ends % 60, second=0, microsecond=0)
    if ends <= minute:
        end += timedelta(days=1)
    return max(1, int(end.timestamp()) - now)


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def digest(base_url: str, told: ToldEvent, counts: Iterable[Sequence[Any]]) -> ChatMessage:
    """The message for what was held: how often each occasion was met."""
    facts = tuple((TITLES[event], str(number)) for event, number in counts)
    return ChatMessage("While it was quiet", f"{base_url}/console/projects/{told.project_id}/cases", facts)


async def _of_case(store: EventStore, base_url: str, told: ToldEvent, *, titles: bool) -> ChatMessage | None:
    listed = await listed_case(store, told.project_id, told.subject_id)
    if listed is None:
        return None
    facts = (("Errors", str(listed.event_count)), ("People", str(listed.users_affected)))
    link = f"{base_url}/console/cases/{told.subject_id}"
    return ChatMessage(TITLES[told.event], link, facts, listed.title if titles else None)


async def _of_approval(store: EventStore, base_url: str, told: ToldEvent, *, titles: bool) -> ChatMessage | None:
    row = await store.get(APPROVALS, told.project_id, told.subject_id)
    if row is None:
        return None
    link = f"{base_url}/console/projects/{told.project_id}/approvals"
    return ChatMessage(TITLES[told.event], link, summary=row.state.summary if titles else None)


async def _of_run(store: EventStore, base_url: str, told: ToldEvent, *, titles: bool) -> ChatMessage | None:  # noqa: ARG001 - like its siblings
    row = await store.get(RUNS, told.project_id, told.subject_id)
    if row is None:
        return None
    facts = [("Outcome", (row.outcome or row.phase).replace("_", " "))]
    verdict = row.state.verdict
    if verdict is not None and not isinstance(verdict.statistics, msgspec.UnsetType):
        probability = verdict.statistics.probability
        facts.append(("Error probability", "unknown" if probability is None else f"{float(probability):.3g}"))
    return ChatMessage(TITLES[told.event], f"{base_url}/console/runs/{told.subject_id}", tuple(facts))


def _linked(place: str) -> "Maker":
    """Make messages that are a link alone, to a page of the project."""

    async def make(_: EventStore, base_url: str, told: ToldEvent, *, titles: bool) -> ChatMessage:  # noqa: ARG001
        return ChatMessage(TITLES[told.event], f"{base_url}/console/projects/{told.project_id}/{place}")

    return make


Maker = Callable[..., Awaitable[ChatMessage | None]]
_MAKERS: Mapping[str, Maker] = {
    "case.created": _of_case,
    "case.regressed": _of_case,
    "approval.requested": _of_approval,
    "run.ended": _of_run,
    "alert.triggered": _linked("alerts"),
    "automation.stopped": _linked("automation"),
    "report.recorded": _linked("reports"),
}
