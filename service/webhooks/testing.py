"""Tests of webhooks and destinations, and the catalogue of what they deliver (R-WEB-06, G-090).

A test makes the service call an address of somebody else's choice. So a process carries out few at a time, and a
webhook one at a time and ten a minute, by whichever process. No connection to the database waits for the receiver.

A keyed request names its delivery. While its test is under way, a twin is told that the key is in use, and for a
minute after it, the twin is given its outcome. A request whose process died during the call is sent anew by a repeat,
with the same delivery id: whether the receiver has taken the first one, nobody knows.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache, partial
from typing import Any, NamedTuple, get_args

import msgspec

from schemas import webhooks as wire
from schemas.cases.case import CaseItem, CaseStatus
from schemas.deploys import DeployRecord
from schemas.kernel.published import body_schema
from service.auth.refusals import Refusal
from service.egress.guard import Guard, reach_of_webhooks
from service.eventstore.connect.connection import RESENT
from service.eventstore.declare.commands import KeyInProgress
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE
from service.settings import Settings
from service.sql import load_query
from service.webhooks.destination import StandingDestination
from service.webhooks.mail import FULL, Mailer, UnsubscribeToken, address_of, take_of_day
from service.webhooks.message import laid_out, test_message
from service.webhooks.sending import (
    AttemptOutcome,
    Outgoing,
    delivery_id,
    open_address,
    open_target,
    scope_of,
    send,
    send_message,
)
from service.webhooks.webhook import StandingWebhook
from statemachines import alerts, deploys, reports
from statemachines.cases import batch, case
from statemachines.contracts import contract
from statemachines.kernel.machine import derived_id
from statemachines.kernel.topics import UnknownTopic, latest_topic
from statemachines.onboarding import lifecycle
from statemachines.runs import approval, pull_request
from statemachines.runs import events as run_events

# Tests of webhooks: one delivery at once, sent by the process that was asked (R-WEB-06, G-090).

AT_ONCE = 8
"""Tests under way in a process."""
A_MINUTE = 10
"""Tests of one webhook."""
LONGEST = 12
"""Seconds after which a test that was not ended, for its process died, keeps no other waiting."""
UNLIMITED = 1_000_000
KEPT = 60
"""Seconds for which a twin is given the outcome of a test that has ended."""
TRIES = 10
"""Times to begin a test while a command holds its row, which takes some milliseconds."""
PAUSE = 0.05
"""Seconds between two of them. No connection is held meanwhile."""

_BEGIN = load_query("webhooks", "begin_test")
_FIND = load_query("webhooks", "find_test")
_END = load_query("webhooks", "end_test")


class TooManyTests(Refusal):
    """A test of the webhook is under way, or the webhook or the process has had as many as it may."""

    code = "rate_limited"


class WebhookTester:
    """The tests of one process."""

    def __init__(self, settings: Settings, store: EventStore, guard: Guard) -> None:
        self._settings = settings
        self._store = store
        self._guard = guard
        self._mailer = Mailer(settings, guard)
        self._reach = reach_of_webhooks(allow_private=settings.webhook_allow_private)
        self._most = A_MINUTE if settings.rate_limits else UNLIMITED
        self._running = 0
        self._most_running = SHARE.of(AT_ONCE)

    async def test(self, webhook: StandingWebhook, delivery: str, account: str) -> AttemptOutcome | None:
        """Send a test to a webhook, as `run` does."""
        return await self.run(
            webhook.row.project_id, webhook.row.id, delivery, partial(self._send, webhook, delivery, account)
        )

    async def test_destination(self, found: StandingDestination, delivery: str, account: str) -> AttemptOutcome | None:
        """Send a test to a destination, as `run` does."""
        row = found.row
        body = laid_out(row.kind, test_message(self._settings.base_url, row.project_id))
        if row.member_id is not None:
            rule = UnsubscribeToken(row.project_id, row.id, row.member_id)
            return await self.run(row.project_id, row.id, delivery, partial(self._send_mail, rule, delivery, body))
        address = open_address(self._settings.encryption_key, scope_of(row.project_id, row.id), found.target.url)
        call = partial(send_message, self._guard, self._reach, account, address, body)
        return await self.run(row.project_id, row.id, delivery, call)

    async def run(
        self, project_id: str, id: str, delivery: str, call: Callable[[], Awaitable[AttemptOutcome]]
    ) -> AttemptOutcome | None:
        """Send a test by a call and note its outcome, or find the outcome that a twin has noted.

        None when the receiver or its project has ended meanwhile. Raises TooManyTests, KeyInProgress while a twin is
        sending it, and what writing facts raises.
        """
        about = {"project_id": project_id, "id": id, "delivery": delivery}
        if self._running >= self._most_running:
            return await self._of_twin(about, 1)
        self._running += 1
        try:
            return await self._run(about, call)
        finally:
            self._running -= 1

    async def _run(self, about: dict[str, str], call: Callable[[], Awaitable[AttemptOutcome]]) -> AttemptOutcome | None:
        for _ in range(TRIES):
            stands, begun = await self._begin(about)
            if stands:
                break
            await asyncio.sleep(PAUSE)
        else:
            return None
        if not begun:
            return await self._of_twin(about, LONGEST)
        attempt = await call()
        async with self._store.facts.connection() as connection:
            await connection.execute(_END, {**about, "status": attempt.status, "error": attempt.error})
        return attempt

    async def _begin(self, about: dict[str, str]) -> tuple[bool, bool]:
        async with self._store.facts.connection() as connection:
            values = {**about, "longest": LONGEST, "most": self._most, "kept": KEPT}
            [[stands, begun]] = await (await connection.execute(_BEGIN, values)).fetchall()
        return stands, begun

    async def _send(self, webhook: StandingWebhook, delivery: str, account: str) -> AttemptOutcome:
        row, target = webhook.row, webhook.target
        now = await self._store.now()
        former = target.former_secret if (target.former_until or 0) > now else None
        body = wire.DeliveryBody(
            id=delivery,
            event=wire.TEST,
            project_id=row.project_id,
            created_at=now,
            data=msgspec.to_builtins(wire.WebhookTold(webhook_id=row.id)),
        )
        opened = open_target(
            self._settings.encryption_key, scope_of(row.project_id, row.id), target.url, target.secret, former
        )
        outgoing = Outgoing(delivery, wire.TEST, msgspec.json.encode(body))
        return await send(self._guard, self._reach, account, opened, outgoing)

    async def _send_mail(self, rule: UnsubscribeToken, delivery: str, body: bytes) -> AttemptOutcome:
        """Send a test by mail. It counts like any message, and a member without a rule gets none."""
        facts = self._store.facts
        address = await address_of(facts, rule.project_id, rule.destination_id)
        if address is not None and await take_of_day(facts, rule.member_id, delivery):
            return AttemptOutcome(None, FULL)
        return await self._mailer.send(rule, address, delivery, body)

    async def _of_twin(self, about: dict[str, str], seconds: int) -> AttemptOutcome:
        """The outcome of the same test, sent by another.

        Raises KeyInProgress while it is under way, and TooManyTests for some seconds if there is none.
        """
        async with self._store.facts.connection() as connection:
            found = await (await connection.execute(_FIND, {**about, "kept": KEPT})).fetchall()
        for runs, ended, status, error in found:
            if runs:
                raise KeyInProgress
            if ended:
                return AttemptOutcome(status, error)
        raise too_many_tests(seconds)


def too_many_tests(seconds: int) -> TooManyTests:
    """The refusal of a test for some seconds."""
    return TooManyTests(
        "Another test is under way, or there were too many.",
        next_action="Wait for the seconds of Retry-After, then test again.",
        headers={"retry-after": str(seconds)},
    )


# Which events of the log are delivered, and under which names (G-091, G-160).

STAR = "*"
DOCUMENTED: frozenset[str] = frozenset(get_args(wire.DocumentedName))
"""What `*` stands for."""

TOPICS: Mapping[str, tuple[str, ...]] = {
    "case.created": (
        case.CaseOpened.TOPIC,
        case.CaseOpenedIgnored.TOPIC,
        case.CaseOpenedResolved.TOPIC,
        case.CaseOverflowOpened.TOPIC,
    ),
    "case.regressed": (case.CaseRegressed.TOPIC,),
    "case.resolved": (case.CaseResolved.TOPIC, case.CaseResolvedByMember.TOPIC),
    "case.ignored": (case.CaseIgnored.TOPIC, case.CaseIgnoredByMember.TOPIC),
    "deploy.recorded": (deploys.DeployRecorded.TOPIC,),
    "case.reopened": (case.CaseReopened.TOPIC, case.CaseOverflowReopened.TOPIC),
    "case.merged": (case.CaseMerged.TOPIC,),
    "case.split": (case.CaseSplitOff.TOPIC,),
    "case.assigned": (case.CaseAssigned.TOPIC,),
    "case_batch.ended": (batch.CaseBatchEnded.TOPIC,),
    "onboarding.approved": (lifecycle.OnboardingApproved.TOPIC,),
    "onboarding.verified": (lifecycle.OnboardingVerified.TOPIC,),
    "run.started": (run_events.RunStarted.TOPIC,),
    "run.ended": (
        run_events.RunVerified.TOPIC,
        run_events.RunVerificationFailed.TOPIC,
        run_events.RunReported.TOPIC,
        run_events.RunFailed.TOPIC,
        run_events.RunFailedOutside.TOPIC,
        run_events.RunClosedUnmerged.TOPIC,
        run_events.RunClosedDeployed.TOPIC,
        run_events.RunMergedChanged.TOPIC,
        run_events.RunMergedChangedDeployed.TOPIC,
        run_events.RunEscalated.TOPIC,
        run_events.RunEscalatedOutside.TOPIC,
        run_events.RunCancelled.TOPIC,
        run_events.RunCancelledOutside.TOPIC,
    ),
    "approval.requested": (approval.ApprovalRequested.TOPIC,),
    "alert.triggered": (alerts.AlertTriggered.TOPIC,),
    "alert.cleared": (alerts.AlertCleared.TOPIC,),
    "approval.decided": (approval.ApprovalGiven.TOPIC, approval.ApprovalRefused.TOPIC),
    "pull_request.ungranted": (pull_request.PullRequestUngranted.TOPIC,),
}
_NAMES = {topic: name for name, topics in TOPICS.items() for topic in topics}


def name_of(topic: str) -> str | None:
    """The name under which an event of any version is delivered. None: it is not."""
    return _found(_NAMES, topic)


def _found(names: Mapping[str, str], topic: str) -> str | None:
    try:
        return names.get(latest_topic(topic))
    except UnknownTopic:
        return None


_OCCASIONS: Mapping[str, str] = {
    **dict.fromkeys((case.CaseOpened.TOPIC, case.CaseOverflowOpened.TOPIC), "case.created"),
    **{
        topic: name
        for name in ("case.regressed", "approval.requested", "run.ended", "alert.triggered")
        for topic in TOPICS[name]
    },
    **dict.fromkeys(
        (contract.AutomationDisabled.TOPIC, contract.LastAutomationDisabled.TOPIC, contract.ContractPaused.TOPIC),
        "automation.stopped",
    ),
    reports.ReportRecorded.TOPIC: "report.recorded",
}


def occasion_of(topic: str) -> str | None:
    """The occasion for a notification that an event of any version is. None: it is none."""
    return _found(_OCCASIONS, topic)


def is_subscribed(events: Collection[str], name: str) -> bool:
    """Whether a subscription holds a name. `*` holds the documented ones alone."""
    return name in events or (STAR in events and name in DOCUMENTED)


# Every kind of delivery described: its JSON Schema, made from the types that bodies are made of, and an example.

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_AT = 1_790_000_000


class _Kind(NamedTuple):
    """When a name is delivered, and data like that of such a delivery."""

    description: str
    data: msgspec.Struct


def _id(prefix: str) -> str:
    return derived_id(prefix, "example")


_CASE = CaseItem(
    id=_id("case"),
    case_id=_id("case"),
    project_id=_id("proj"),
    fingerprint="8d5f3c1e9a7b4260",
    title="TypeError: total is undefined",
    level="error",
    status="open",
    revision=1,
    trust="customer_provider",
    environment="production",
    release="shop@1.4.2",
    event_count=1,
    users_affected=1,
    first_seen_at=_AT,
    last_seen_at=_AT,
    first_occurred_at=_AT,
    last_occurred_at=_AT,
    source="local",
    suppression_id=None,
    claimed=False,
)
_DEPLOY = DeployRecord(
    id=_id("dep"),
    deploy_id=_id("dep"),
    project_id=_id("proj"),
    version="1.4.3",
    environment="production",
    sha="4f1d2c3b5a69788796a5b4c3d2e1f0fedcba9876",
    branch="main",
    message="Sum up an empty cart",
    source="ci",
    trusted=True,
    credential_id=_id("cred"),
    onboarding_proof=False,
    automation_run_id=None,
    recorded_at=_AT,
)
_RUN = wire.RunTold(
    run_id=_id("run"), automation_id="self-healing", case_id=_id("case"), status="run_started", revision=1
)
_APPROVAL = wire.ApprovalTold(
    approval_id=_id("appr"), run_id=_id("run"), automation_id="self-healing", status="pending", revision=1
)


def _case(status: CaseStatus, revision: int) -> wire.CaseTold:
    return wire.CaseTold(case_id=_id("case"), status=status, revision=revision)


def _listed(status: CaseStatus, revision: int) -> CaseItem:
    return msgspec.structs.replace(_CASE, status=status, revision=revision)


KINDS: Mapping[str, _Kind] = {
    "case.created": _Kind("A case was opened, by whichever error, also a synthetic one.", _CASE),
    "case.regressed": _Kind("An error came back in a resolved case, which is open again.", _listed("open", 3)),
    "case.resolved": _Kind("A case was resolved, by a member or a run.", _listed("resolved", 2)),
    "case.ignored": _Kind("A case was ignored, by a member or a rule.", _listed("ignored", 2)),
    "deploy.recorded": _Kind("A deploy was recorded.", _DEPLOY),
    "case.reopened": _Kind("A member opened a case again.", _case("open", 3)),
    "case.merged": _Kind(
        "A member merged a case into another.",
        wire.CaseMergedTold(
            case_id=_id("case"), status="ignored", revision=2, merged_into=derived_id("case", "another example")
        ),
    ),
    "case.split": _Kind("A member split a case off the one it was merged into.", _case("open", 3)),
    "case.assigned": _Kind(
        "A member assigned a case to somebody, or to nobody.",
        wire.CaseAssignedTold(case_id=_id("case"), status="open", revision=1, assignee=_id("usr")),
    ),
    "case_batch.ended": _Kind(
        "A member acted on many cases. It is told in place of an event for each, also to those subscribed to these.",
        wire.CaseBatchTold(batch_id=_id("batch"), action="resolve", assignee=None, cases=120, moved=118, revision=1),
    ),
    "onboarding.approved": _Kind(
        "The owner approved the plan of an onboarding.",
        wire.OnboardingTold(onboarding_id=_id("onb"), status="approved", revision=2),
    ),
    "onboarding.verified": _Kind(
        "The proof of an onboarding succeeded.",
        wire.OnboardingTold(onboarding_id=_id("onb"), status="verified", revision=4),
    ),
    "run.started": _Kind("A runner started a run.", _RUN),
    "run.ended": _Kind(
        "A run ended: `status` is its outcome.",
        msgspec.structs.replace(_RUN, status="succeeded", revision=7, error_probability=0.02),
    ),
    "approval.requested": _Kind("A runner asks for an approval.", _APPROVAL),
    "approval.decided": _Kind(
        "A member approved or rejected a request.", msgspec.structs.replace(_APPROVAL, status="approved", revision=2)
    ),
    "pull_request.ungranted": _Kind(
        "CI saw a pull request of a repair that nobody granted, and the automations of its repository were turned off.",
        wire.PullRequestTold(
            pull_request_id=_id("pull"),
            run_id=_id("run"),
            status="open",
            automations_disabled=["self-healing"],
            revision=2,
        ),
    ),
    "alert.triggered": _Kind(
        "A look at an alert met its threshold, and the one before did not.",
        wire.AlertTold(alert_id=_id("alert"), status="triggered", revision=3),
    ),
    "alert.cleared": _Kind(
        "A look at an alert did not meet its threshold, and the one before did.",
        wire.AlertTold(alert_id=_id("alert"), status="evaluated_clear", revision=4),
    ),
    wire.FENCED: _Kind(
        "The deletion of the project began. This is the last delivery.",
        wire.ProjectTold(project_id=_id("proj"), status="fenced", revision=12),
    ),
    wire.TEST: _Kind(
        "A member sent a test, whatever the webhook is subscribed to.", wire.WebhookTold(webhook_id=_id("wh"))
    ),
}
"""By the name of the event."""


@cache
def catalogue() -> wire.WebhookEventList:
    """Every kind of delivery."""
    events = [
        wire.WebhookEvent(
            event=name,  # type: ignore[arg-type]
            description=kind.description,
            in_star=name in DOCUMENTED,
            schema=delivery_schema(name),
            example=example(name),
        )
        for name, kind in KINDS.items()
    ]
    return wire.WebhookEventList(
        events=events,
        count=len(events),
        next_action="Register a webhook with the names that you need. Accept members that are not in the schema.",
    )


def delivery_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of the body of a delivery, whole by itself. A later version may add members."""
    schema = {"$schema": DIALECT, **body_schema(wire.DeliveryBody), "title": name}
    members = {"event": {"const": name}, "data": body_schema(type(KINDS[name].data))}
    return {**schema, "properties": {**schema["properties"], **members}}


def example(name: str) -> wire.DeliveryBody:
    """The body of a delivery."""
    return wire.DeliveryBody(
        id=_id("whd"),
        event=name,
        project_id=_id("proj"),
        created_at=_AT,
        data=msgspec.to_builtins(KINDS[name].data),
    )


# Deliveries made again: one by its id, or all of a range of the log (G-161). They are facts beside the stream of their
# webhook. The statement that queues them looks at the webhook and its project under their rows, as the beginning of an
# attempt does: none is queued after a stop, a deletion or a fence. A delivery keeps the mark of the keyed request that
# queued it last, for a day. So twins queue it once, and so does the repeat of a request whose process died before its
# answer was stored: it finds the mark, and is answered as if it had queued the delivery itself.

_RESEND = load_query("webhooks", "resend")
_EVENTS_BETWEEN = load_query("webhooks", "events_between")
_REPLAY = load_query("webhooks", "replay")
_REPLAYED = load_query("webhooks", "replayed")
MARK_SECONDS = 86_400
"""As long as the record of a key."""
_TOPICS = [topic for topics in TOPICS.values() for topic in topics]


async def resend(store: EventStore, project_id: str, webhook_id: str, delivery: str, asked: str | None) -> None:
    """Queue a delivery again, once for a mark. Nothing happens while the webhook is stopped, or gone.

    Raises as writing facts does.
    """
    values = {"project_id": project_id, "webhook_id": webhook_id, "id": delivery, "asked": asked, "kept": MARK_SECONDS}
    async with store.facts.connection() as connection:
        await connection.execute(_RESEND, values)
    RESENT.ring()


async def replay(store: EventStore, webhook: StandingWebhook, after: int, until: int, asked: str | None) -> int:
    """Queue every event of a range of positions that the webhook is subscribed to, once for a mark.

    Returns their number: 0 while the webhook is stopped, or gone. Raises as reading and writing facts do.
    """
    row = webhook.row
    about = {"project_id": row.project_id, "webhook_id": row.id}
    found = await store.fetch(_EVENTS_BETWEEN, **about, after=after, until=until, topics=_TOPICS)
    rows = []
    for position, event_id, topic, stream_id, revision, at in found:
        name = name_of(topic)
        if name is not None and is_subscribed(row.events, name):
            rows.append(
                {
                    "position": position,
                    "id": delivery_id(row.id, event_id),
                    "event": name,
                    "subject_id": stream_id,
                    "stream_revision": revision,
                    "created_at": at,
                }
            )
    if not rows:
        return 0
    async with store.facts.connection() as connection:
        values = {**about, "rows": msgspec.json.encode(rows).decode(), "asked": asked, "kept": MARK_SECONDS}
        queued = (await connection.execute(_REPLAY, values)).rowcount
    RESENT.ring()
    if asked is None or queued:
        return queued
    # Only now, so that it sees what a twin has queued meanwhile.
    async with store.facts.connection() as connection:
        within = {**about, "after": after, "until": until, "asked": asked}
        [[twin]] = await (await connection.execute(_REPLAYED, within)).fetchall()
    return int(twin)
