"""How a repeat is answered from the record of its key: one rule, for commands and for telemetry (G-008)."""

from __future__ import annotations

import pytest

from service.eventstore.declare.commands import IdempotencyRecord, KeyReused, Outcome, replay

STORED = IdempotencyRecord("f", "cmd_1", 201, b'{"id":1}', {"etag": '"1"'})
BOUND = IdempotencyRecord("f", "cmd_1", None, b"", {})


def test_the_stored_answer_comes_back_as_it_was():
    assert replay(STORED, "f") == Outcome(201, b'{"id":1}', {"etag": '"1"'}, replayed=True)


def test_without_an_answer_it_is_decided():
    assert replay(None, "f") is None
    assert replay(BOUND, "f") is None


@pytest.mark.parametrize("record", [STORED, BOUND])
def test_a_key_belongs_to_one_request(record: IdempotencyRecord):
    """Even while its answer is still pending."""
    with pytest.raises(KeyReused):
        replay(record, "g")
