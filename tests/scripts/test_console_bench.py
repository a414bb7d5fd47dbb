"""The bench of the console: it knows every page, and its errors are found as those of the intake are."""

from __future__ import annotations

import time

import psycopg

from scripts.bench import caselists, visits
from scripts.load import worlds
from service.ids import made_at


def test_every_page_has_a_place() -> None:
    assert "projects/{project_id}/cases" in visits.places()


def test_a_loud_case_has_its_share_and_ids_tell_their_time(database_url: str) -> None:
    caselists.fill(worlds.Service(0, database_url, "", ""), "proj_x", 100, 1000, loud=20)
    with psycopg.connect(database_url, autocommit=True) as sql:
        stored = sql.execute("select id, received_at, case_id from log_events").fetchall()
    assert len({one for one, _, _ in stored}) == 1000
    assert all(made_at("log", one) == at for one, at, _ in stored)
    assert sum(case_id == caselists.LOUD for _, _, case_id in stored) == 200
    assert max(at for _, at, _ in stored) <= time.time()
