"""The events of the bench of answers, and its SQL by hand: what the service would answer over them."""

from __future__ import annotations

import time

import psycopg

from scripts.bench import answers
from scripts.load import worlds

EVENTS = 10_000


def test_a_tenth_is_counted_by_either_question_and_the_hand_counts_as_the_service(database_url: str) -> None:
    until = int(time.time())
    answers.fill(worlds.Service(0, database_url, "", ""), "proj_x", EVENTS, until)
    since = until - answers.DAYS * 86_400
    values = {"project": "proj_x", "steps": answers.STEPS, "since": since, "until": until}
    values |= {f"step_{step}": name for step, name in enumerate(answers.STEPS, 1)}
    named = "select count(*) from analytics_events where event = any(%s) and received_at >= %s and received_at < %s"
    walked = "select ordered_funnel(%(project)s, %(steps)s, %(since)s, %(until)s, 1000000)"
    with psycopg.connect(database_url, autocommit=True) as sql:
        for names in ([answers.TREND], answers.STEPS):
            [[matching]] = sql.execute(named, (names, since, until)).fetchall()
            assert 0.08 * EVENTS < matching < 0.12 * EVENTS
        [[reached]] = sql.execute(walked, values).fetchall()
        [by_hand] = sql.execute(answers.funnel_by_hand().encode(), values).fetchall()
    assert list(by_hand) == reached
    assert reached == sorted(reached, reverse=True)
    assert reached[-1] > 0
