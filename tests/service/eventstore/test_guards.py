"""What guards the history is described, and compared, as this release makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from service.eventstore.schema import functions, guards
from service.eventstore.schema.guards import Serving, Weakness, check_guards, serving_role
from service.history.audit import CheckedHistory, Problem, check_history
from tests.support.cluster import TestCluster
from tests.support.handwritten import append
from tests.support.toy import ToyOpened

Sql = psycopg.Connection[Any]


def test_the_file_describes_what_the_migrations_make(any_database_url: str):
    """On every supported server. After a migration that makes or changes one: `python -m scripts.guards`."""
    with psycopg.connect(any_database_url, autocommit=True) as sql:
        assert guards.described(sql) == guards.expected()
        assert list(check_guards(sql)) == []
        assert serving_role(sql) == Serving("service", superuser=False, owns=True, appends=True)


def test_what_a_later_release_applied_is_not_judged(database_url: str):
    """Its functions, and whatever but the guard of events its migrations may have changed."""
    with psycopg.connect(database_url, autocommit=True) as sql:
        sql.execute("alter table checkpoints drop constraint checkpoints_pkey")
        sql.execute("create or replace function service_now() returns timestamptz language sql as 'select now()'")
        weak = [
            Weakness("constraint_missing", "checkpoints_pkey on checkpoints"),
            Weakness("function_changed", "service_now"),
        ]
        assert list(check_guards(sql)) == weak
        sql.execute("update schema_functions set release = '99.0.0' where name = 'service_now'")
        sql.execute("insert into schema_migrations values ('9999_later', 'x', '', now(), true)")
        assert list(check_guards(sql)) == []
        sql.execute("drop trigger events_immutable on events")
        assert list(check_guards(sql)) == [Weakness("trigger_missing", "events_immutable on events")]


def test_a_superuser_that_serves_is_named(cluster: TestCluster, database_url: str):
    """No guard stops it; the role that owns the tables is found only where another one is meant to."""
    with psycopg.connect(cluster.admin_url(database_url), autocommit=True) as sql:
        [weakness] = check_guards(sql)
        assert weakness == Weakness("superuser_serves", "postgres is a superuser, whom no guard stops")
    with psycopg.connect(database_url, autocommit=True) as sql:
        [weakness] = check_guards(sql, parted=True)
        assert weakness == Weakness("owner_serves", "service owns the tables, and can drop their guards")


def test_a_payload_that_does_not_decode_is_found(toys_url: str):
    """Though its hashes are right: no release wrote it. One of a topic that nobody here knows is counted."""
    with psycopg.connect(toys_url, autocommit=True) as sql:
        append(sql, "proj_a", "toy_1", "toy", ToyOpened.TOPIC, {"label": 7})
        append(sql, "proj_a", "toy_1", "toy", "toy.unheard_of.v1", {"label": 7})
        append(sql, "proj_a", "toy_1", "toy", "toy.closed.v1", [1])
        seen = CheckedHistory()
        assert list(check_history(sql, seen)) == [
            Problem("payload_unreadable", "proj_a", "toy_1", revision) for revision in (1, 3)
        ]
        assert (seen.events, seen.newer) == (3, 1)


def test_every_function_has_a_body_to_compare():
    """`$body$`, once opened and once closed; settings and rights stand before it."""
    for function in functions.discover():
        assert function.sql.count("$body$") == 2, function.name
    folder = Path(guards.__file__).parent / "sql" / functions.FOLDER
    assert "security definer" in (folder / "erase_payloads.sql").read_text()
