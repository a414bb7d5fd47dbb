"""The events by which the cost of large ones is told: of the size that is said, and each with values of its own."""

from __future__ import annotations

import json
from itertools import islice
from statistics import mean

from scripts.bench import errors
from service.http.body.gate import check_body, check_values


def test_events_are_of_the_size_that_is_said() -> None:
    texts = errors.bodies()
    assert 14_500 < mean(map(len, texts)) < 15_500
    assert len({len(json.loads(text)["extra"]["exception"]["frames"]) for text in texts}) > 20
    for text in texts:
        check_body(text)
        check_values(text)


def test_no_two_are_the_same() -> None:
    clients = [errors.sending("dsn", "/v1/logs/", number, errors.bodies()) for number in range(2)]
    sent = [body for client in clients for _, _, _, body in islice(client, 3 * errors.STACKS)]
    assert len(set(sent)) == len(sent)
    assert {frozenset(json.loads(body)) for body in sent} == {frozenset(errors.event(0))}
