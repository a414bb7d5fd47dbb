"""What /metrics tells of the signed log: how far it is signed and cosigned, and whether it may be (G-169)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.discovery.reads import DESCRIPTIONS
from service.sql import load_query
from service.tlog.signing import continue_log, sign_once
from service.tlog.tree import latest_checkpoint
from tests.service.tlog.test_tree import restored
from tests.support.trees import fill, sign_all, signer_at

Sql = psycopg.Connection[Any]
FIGURES = load_query("discovery", "figures")
EVENTS, SIGNED = "service_log_events", "service_log_signed_events"
MAY, COSIGNED = "service_log_may_be_signed", "service_log_cosigned_events"


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def figures(sql: Sql) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Labels and values of the figures of the log, by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in (EVENTS, SIGNED, MAY, COSIGNED)}
    for name, labels, value in sql.execute(FIGURES).fetchall():
        assert name in DESCRIPTIONS
        if name in found:
            found[name].append((labels, float(value)))
    return found


def cosign(sql: Sql, *witnesses: str) -> None:
    kept = latest_checkpoint(sql)
    assert kept is not None
    for witness in witnesses:
        sql.execute(
            "insert into log_cosignatures values (%s, %s, %s, '', clock_timestamp())", (kept.origin, kept.size, witness)
        )


def test_the_figures_follow_log_signature_and_witnesses(sql: Sql, tmp_path: Path) -> None:
    signer = signer_at(tmp_path)
    assert figures(sql) == {EVENTS: [({}, 0)], SIGNED: [({}, 0)], MAY: [], COSIGNED: []}
    fill(sql, 300)
    assert figures(sql)[EVENTS] == [({}, 300)]
    assert figures(sql)[SIGNED] == [({}, 0)]
    sign_once(sql, signer, judges=True)
    assert figures(sql)[SIGNED] == [({}, 300)]
    assert figures(sql)[MAY] == [({"verdict": "same"}, 1)]
    cosign(sql, "w1", "w2")
    fill(sql, 5)
    sign_all(sql, signer)
    cosign(sql, "w2")
    found = figures(sql)
    assert (found[EVENTS], found[SIGNED]) == ([({}, 305)], [({}, 305)])
    assert sorted(found[COSIGNED], key=str) == [({"witness": "w1"}, 300), ({"witness": "w2"}, 305)]


def test_they_tell_of_another_log_and_of_its_new_origin(sql: Sql, tmp_path: Path) -> None:
    signer = signer_at(tmp_path)
    fill(sql, 300)
    sign_all(sql, signer)
    cosign(sql, "w1")
    restored(sql)
    sign_once(sql, signer, judges=True)
    found = figures(sql)
    assert found[MAY] == [({"verdict": "shorter"}, 0)]
    assert (found[EVENTS], found[SIGNED]) == ([({}, 200)], [({}, 0)])
    continue_log(sql, signer.file)
    sign_once(sql, signer, judges=True)
    found = figures(sql)
    assert found[MAY] == [({"verdict": "same"}, 1)]
    assert found[SIGNED] == [({}, 200)]
    assert found[COSIGNED] == [], "nobody has cosigned the new origin"
