"""The figures of due deliveries: how many, and how late the latest is."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from service.sql import load_query
from tests.service.webhooks.test_noting import PROJECT
from tests.service.webhooks.test_noting import sql as sql  # noqa: PLC0414 (a fixture is found by name)

Sql = psycopg.Connection[Any]
FIGURES = load_query("discovery", "figures")


def figures(sql: Sql) -> tuple[float, float]:
    found = {name: float(value) for name, labels, value in sql.execute(FIGURES).fetchall() if not labels}
    return found["service_webhook_deliveries_due"], found["service_webhook_deliveries_oldest_due_seconds"]


def add(sql: Sql, webhook: str, *late_seconds: int | None, active: bool = True) -> None:
    """A webhook with deliveries that are so late. None: there is nothing left to do."""
    sql.execute("insert into webhook_subscriptions values (%s, %s, '[]', %s, 0)", (PROJECT, webhook, active))
    for position, late in enumerate(late_seconds):
        sql.execute(
            "insert into webhook_deliveries (project_id, webhook_id, position, id, event, subject_id, stream_revision, "
            "created_at, queued_at, due_ms) values (%s, %s, %s, %s, 'case.created', 'case_1', 1, 0, 0, "
            "(extract(epoch from service_now()) - %s::int) * 1000)",
            (PROJECT, webhook, position, f"whd_{webhook}_{position}", late),
        )


def test_what_is_due_is_counted_with_the_age_of_the_oldest(sql: Sql) -> None:
    """Not what is due later, is done, or belongs to a webhook that is off."""
    assert figures(sql) == (0, 0)
    add(sql, "wh_1", -60, -3600, None)
    assert figures(sql) == (0, 0)
    add(sql, "wh_2", 500, 10, -5, None)
    add(sql, "wh_3", 40)
    add(sql, "wh_4", 9000, active=False)
    due, oldest = figures(sql)
    assert due == 3
    assert 500 <= oldest <= 560


@pytest.mark.parametrize(("webhooks", "each", "counted"), [(3, 150, 300), (1003, 1, 1000)])
def test_a_long_queue_is_counted_up_to_a_bound(sql: Sql, webhooks: int, each: int, counted: int) -> None:
    """A look costs the same whatever waits: 100 deliveries of a webhook, and 1000 webhooks."""
    sql.execute(
        "insert into webhook_subscriptions select %s, 'wh_' || n, '[]', true, 0 from generate_series(1, %s) n",
        (PROJECT, webhooks),
    )
    sql.execute(
        "insert into webhook_deliveries (project_id, webhook_id, position, id, event, subject_id, stream_revision, "
        "created_at, queued_at, due_ms) select %s, 'wh_' || n, p, 'whd_' || n || '_' || p, 'case.created', 'case_1', "
        "1, 0, 0, 0 from generate_series(1, %s) n, generate_series(1, %s) p",
        (PROJECT, webhooks, each),
    )
    assert figures(sql)[0] == counted
