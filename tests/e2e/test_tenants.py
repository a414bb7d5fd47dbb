"""One tenant's requests, repeated by another: nothing named in them exists for the other (P19, R-GEN-14).

The first tenant's requests and answers are recorded. The second takes the same tour, and before each request of its
own asks for the first one's things: with its own credential and their ids, and with its own ids but for some of theirs.
At the end, it replays the whole trail with every secret it has. An answer that differs from the one for ids of nobody,
a success, a failure of the service, a word of the first tenant's, or one row of theirs that moved is a fault.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from schemas.webhooks import DeliveryBody
from service.eventstore.store import EventStore
from service.http.edge.routes import all_endpoints
from service.registry import registry
from service.webhooks.queueing import events_of
from service.webhooks.testing import TOPICS
from tests.e2e.intruder import ABSENT, RUN, Attempt, Intruder, asks_as_tenant, kind_of
from tests.support import accounts
from tests.support.cluster import TestCluster
from tests.support.listening import faults_of_body
from tests.support.payments import KEY, running_payments
from tests.support.provider import running_provider
from tests.support.provider.api import running_api
from tests.support.server import ServerHandle
from tests.support.tenants.footprint import Footprint, differences
from tests.support.tenants.recording import ID, Recorder
from tests.support.tenants.tour import Tenant, disconnect, take_tour

NAMES_NOTHING = {
    "capture_posthog_batch",
    "capture_posthog_event",
    "capture_posthog_events",
    "create_project",
    "decide_posthog",
    "get_billing_status",
    "get_chunk_upload",
    "get_previous_sentry_release",
    "get_query_blueprint",
    "get_usage",
    "get_usage_history",
    "ingest_posthog_events",
    "list_keys",
    "list_projects",
    "list_query_blueprints",
    "list_sentry_repos",
    "list_sessions",
    "send_mcp_message",
    "open_billing_portal",
    "read_browser_config",
    "read_posthog_flags",
    "record_analytics_event",
    "record_deploy",
    "record_log",
    "record_minidump",
    "record_security_reports",
    "record_sentry_envelope",
    "record_sentry_event",
    "record_sentry_user_report",
    "start_billing_checkout",
    "upload_chunks",
}
"""Operations of tenants that name nothing: whose things they are about follows from the secret alone."""

NOT_ON_THE_TOUR = {"alert.cleared", "case.assigned", "pull_request.ungranted"}
"""Events that tests of tests/service/webhooks/test_outbox.py and tests/service/runs/test_pull_request.py see."""

PROVES = {"get_project_archive"}
"""Operations whose answers hold hashes of the log's tree."""
HASH = re.compile(r"[0-9a-f]{64}")

ENDS = {"delete_account", "delete_project"}
"""Operations that end what they name, for whoever may: whose is deleted, tests/service/http/deletion looks at."""


@dataclass
class Walked:
    """The result."""

    trail: Recorder
    intruder: Intruder
    moved: list[str]

    @property
    def words(self) -> set[str]:
        """Values that only the first tenant may see: ids, secrets, and what both tenants were not sent."""
        told, common = self.trail.words(), self.intruder.words()
        own = {word for word in told if ID.search(word) or kind_of(word)}
        return own | {word for word in told - common if any(len(run) >= 16 for run in RUN.findall(word))}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A server with an analytics provider on which no person ever decides, one that provisions, and payments."""
    with (
        running_provider() as provider,
        running_api(stocked=True) as api,
        running_payments() as payments,
        cluster.database() as url,
    ):
        env = {
            **provider.env,
            **api.env(),
            "SERVICE_PAYMENT_API_KEY": KEY,
            "SERVICE_PAYMENT_API_BASE": payments.url,
        }
        handle = ServerHandle(tmp_path_factory.mktemp("tenants"), database_url=url, env=env)
        try:
            handle.start()
            yield handle
        finally:
            handle.stop()


@pytest.fixture(scope="module")
def walked(server: ServerHandle) -> Iterator[Walked]:
    """Both tours, and the replay."""
    assert server.database_url is not None
    with Footprint(server.database_url) as footprint:
        trail = Recorder()
        with Tenant(server, trail, "first") as first:
            take_tour(first)
            disconnect(first)
        scopes = footprint.scopes()
        before = footprint.settled_rows(scopes)
        intruder = Intruder(trail.exchanges, trail.words(), footprint.by_hand)
        with Tenant(server, intruder, "second") as second:
            take_tour(second)
            disconnect(second)
            with server.client() as client:
                second.secrets["newcomer"] = accounts.sign_in(client, server.internal_token)
            del second.secrets["spare key"]
            intruder.replay(second.secrets)
        yield Walked(trail, intruder, differences(before, footprint.settled_rows(scopes)))


def operations_of(attempts: list[Attempt]) -> set[str]:
    return {attempt.sent.operation.operation_id for attempt in attempts}


def test_the_trail_leads_over_every_operation_of_a_tenant(walked: Walked) -> None:
    """What is built and speaks of a tenant's things was used as it is meant, and every name in it was tried."""
    ours = {item.operation.operation_id for item in all_endpoints() if asks_as_tenant(item.operation)} - ENDS
    assert {exchange.sent.operation.operation_id for exchange in walked.trail.exchanges} >= ours
    assert all(exchange.got.status < 400 for exchange in (*walked.trail.exchanges, *walked.intruder.exchanges))
    naming = [attempt for attempt in walked.intruder.attempts if attempt.ids]
    assert operations_of(naming) == ours - NAMES_NOTHING
    assert operations_of(walked.intruder.attempts) == ours


def test_every_name_was_tried_by_itself(walked: Walked) -> None:
    """Each id that a request carries was once the only foreign one in a request that was otherwise in order."""
    carried = {
        (exchange.sent.operation.operation_id, place[:2])
        for exchange in walked.trail.exchanges
        if asks_as_tenant(exchange.sent.operation)
        for place, name in walked.intruder.names_in(exchange.sent).items()
        if ID.fullmatch(name)
    }
    alone = {
        (attempt.sent.operation.operation_id, place[:2])
        for attempt in walked.intruder.attempts
        if attempt.what == "own request" and len(attempt.names) == 1
        for place in attempt.names
    }
    assert carried <= alone
    assert len(carried) >= 50


def test_nothing_of_another_tenant_is_there(walked: Walked) -> None:
    """Foreign ids are those of nobody: the same status, code, headers and body, never a success, never a failure."""
    problems = [problem for attempt in walked.intruder.attempts for problem in attempt.problems()]
    assert problems == [], "\n".join(problems[:20])
    codes = Counter(attempt.got.error["code"] for attempt in walked.intruder.attempts if attempt.ids)
    assert codes.keys() >= ABSENT, codes
    assert codes.total() >= 700, codes


def test_no_answer_tells_of_another_tenant(walked: Walked) -> None:
    """No id, hash, tag or secret of the first tenant is in any answer to the second."""
    words = walked.words
    assert len(words) >= 100
    leaks = {
        (attempt.sent.operation.operation_id, word)
        for attempt in walked.intruder.attempts
        for word in attempt.leaks(words)
    }
    assert leaks == set()
    own = {
        (exchange.sent.operation.operation_id, word)
        for exchange in walked.intruder.exchanges
        for word in words
        if word in exchange.got.whole
    }
    # Hashes of the log's tree are public, and two proofs of one log share some of them.
    assert {(name, word) for name, word in own if name not in PROVES or not HASH.fullmatch(word)} == set()


def test_nothing_of_another_tenant_moves(walked: Walked) -> None:
    """No row of the first tenant has changed, and no refused attempt has added an event."""
    assert walked.moved == []
    assert walked.intruder.harm == []


async def test_what_happened_is_told_in_the_forms_of_the_catalogue(walked: Walked, server: ServerHandle) -> None:
    """All names but of ends, with data of the type that is published for them (G-160)."""
    assert walked.trail is not None
    assert server.database_url is not None
    store = EventStore(server.database_url, registry())
    await store.start()
    try:
        told: set[str] = set()
        for (project_id,) in await store.fetch("select id from projects"):
            after, before = 0, -1
            while after != before:
                before = after
                found, after = await events_of(store, project_id, list(TOPICS), after, 50)
                for one in found:
                    event = one.told.event
                    body = DeliveryBody(
                        id=one.told.id,
                        event=event,
                        project_id=project_id,
                        created_at=one.told.created_at,
                        data=one.data,
                    )
                    assert faults_of_body(event, msgspec.to_builtins(body)) == []
                    told.add(event)
    finally:
        await store.stop()
    assert told == set(TOPICS) - NOT_ON_THE_TOUR
