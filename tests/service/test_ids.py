"""Ids are lowercase ULIDs behind their prefix (G-002)."""

from __future__ import annotations

import time

from ulid import ULID

from service.ids import new_id


def test_an_id_is_a_ulid_of_now():
    before = time.time()
    prefix, _, text = new_id("log").partition("_")
    assert (prefix, len(text), text) == ("log", 26, text.lower())
    assert before - 0.002 <= ULID.from_str(text.upper()).timestamp <= time.time() + 0.002


def test_ids_differ():
    assert len({new_id("log") for _ in range(10_000)}) == 10_000
