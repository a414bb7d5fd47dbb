"""Sentry's own events through its door: all are stored, and cases agree with the groups of Sentry's code (G-174).

What Sentry's code makes of them is stored in event-samples/reference.json.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import psycopg
import pytest

from scripts.foreign.compare import compare
from scripts.foreign.judging import Assigned, Judgement, judge, report
from scripts.foreign.reference import load
from scripts.foreign.samples import Payload, events, platforms
from scripts.foreign.twins import with_twins
from service.packing import unpack
from tests.support.accounts import create_project, sign_in
from tests.support.cluster import TestCluster
from tests.support.sentry import of_event
from tests.support.server import ServerHandle, running_server

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(900)]

LEAST_F1 = 0.50  # over all pairs of events
LEAST_AGREEMENT = 1230 / 1328  # of all twins
LEAST_OF_KIND = {"text": 0.90, "fingerprint": 0.99}

_CASES = """
    select l.extra, l.packed, coalesce(c.merged_into, l.case_id), l.grouped_by
    from log_events l left join cases c on c.project_id = l.project_id and c.id = l.case_id
    where l.project_id = %s
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A server that lets a project open any number of cases in an hour."""
    more = {"SERVICE_NEW_CASES_PER_HOUR": "100000"}
    with running_server(tmp_path_factory.mktemp("foreign"), cluster, more) as handle:
        yield handle


def send(server: ServerHandle, project: Mapping[str, Any], labelled: Mapping[str, Payload]) -> dict[str, str]:
    """Send each event in an envelope under an id of its own; returns the label by id."""
    dsn = httpx2.URL(project["sdks"]["sentry_dsn"])
    headers = {"x-sentry-auth": f"Sentry sentry_key={dsn.username}, sentry_version=7, sentry_client=x/1"}
    ids = {}
    with server.client() as client:
        for label, payload in labelled.items():
            event_id = uuid.uuid4().hex
            body = of_event({**payload, "event_id": event_id})
            answer = client.post(f"/api{dsn.path}/envelope/", content=body, headers=headers)
            assert (answer.status_code, answer.json()) == (200, {"id": event_id}), label
            ids[event_id] = label
    return ids


def stored(server: ServerHandle, project_id: str, ids: Mapping[str, str]) -> list[tuple[str, Assigned]]:
    """The case of each record, by the label of what was sent."""
    assert server.database_url is not None
    with psycopg.connect(server.database_url) as connection:
        rows = connection.execute(_CASES, (project_id,)).fetchall()
    found = []
    for extra, packed, case_id, grouped_by in rows:
        said = extra if packed is None else unpack(packed)
        found.append((ids[said["sdk"]["event_id"]], Assigned(case_id, grouped_by)))
    return found


@pytest.fixture(scope="module")
def records(server: ServerHandle) -> list[tuple[str, Assigned]]:
    """All events and twins, sent to one project and read from the database."""
    with server.client() as client:
        project = create_project(client, sign_in(client, server.internal_token))
    return stored(server, project["id"], send(server, project, with_twins(events())))


@pytest.fixture(scope="module")
def judgement(records: list[tuple[str, Assigned]]) -> Judgement:
    """The cases beside the reference, with its report printed."""
    judged = judge(dict(records), load(), platforms(events()))
    print(f"\n{report(judged)}")
    return judged


def test_every_event_is_stored_once_and_in_a_case(records: list[tuple[str, Assigned]]) -> None:
    """Nothing that an SDK sends is lost, whatever it holds."""
    assert sorted(label for label, _ in records) == sorted(with_twins(events()))
    assert [label for label, assigned in records if assigned.case is None] == []


def test_cases_agree_with_sentry_s_groups(judgement: Judgement) -> None:
    """Two events that belong together are found together, and others are not."""
    assert judgement.pairs.f1 >= LEAST_F1, report(judgement)


def test_twins_agree_with_sentry_s_groups(judgement: Judgement) -> None:
    """A changed event is in its original's case exactly when it is in its group."""
    assert judgement.all_twins.share >= LEAST_AGREEMENT, report(judgement)


@pytest.mark.parametrize("kind", LEAST_OF_KIND)
def test_twins_of_a_kind_agree(judgement: Judgement, kind: str) -> None:
    """Some changes leave little room for another opinion."""
    assert judgement.twins[kind].share >= LEAST_OF_KIND[kind], report(judgement)


def test_the_comparison_without_a_server_says_the_same(judgement: Judgement) -> None:
    """`python -m scripts.foreign.compare` is of the code that a server runs."""
    assert report(compare()) == report(judgement)
