"""Ids are lowercase ULIDs behind their prefix (G-002)."""

from __future__ import annotations

import multiprocessing
import re
import time
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from service.ids import made_at, new_id


def test_an_id_is_a_ulid_of_now():
    before = time.time()
    prefix, _, text = new_id("log").partition("_")
    assert (prefix, len(text), text) == ("log", 26, text.lower())
    assert before - 0.002 <= ULID.from_str(text.upper()).timestamp <= time.time() + 0.002


def test_an_id_tells_about_when_it_was_made():
    before = int(time.time())
    assert before - 1 <= (made_at("log", new_id("log")) or 0) <= time.time()


@given(st.text() | st.from_regex(r"\Alog_[0-9a-z]{26}\Z"))
def test_what_is_no_id_of_the_kind_was_never_made(text: str):
    """As the other library reads it, which also takes the letters that look like digits."""
    known = re.fullmatch(r"log_[0-9a-hjkmnp-tv-z]{26}", text)
    assert (made_at("log", text) is None) == (known is None)
    assert made_at("case", text) is None
    if known and text[4] <= "7":  # beyond it is no ULID any more
        assert made_at("log", text) == ULID.from_str(text[4:].upper()).milliseconds // 1000


def test_ids_differ():
    assert len({new_id("log") for _ in range(10_000)}) == 10_000


def test_ids_of_threads_differ():
    with ThreadPoolExecutor(8) as threads:
        made = [id_ for ids in threads.map(lambda _: [new_id("log") for _ in range(2_000)], range(8)) for id_ in ids]
    assert len(set(made)) == 16_000


def _send_ids(pipe):
    pipe.send([new_id("log") for _ in range(300)])


def test_a_forked_process_makes_ids_of_its_own():
    """What was drawn before the fork is not used on both sides of it."""
    new_id("log")
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    child = fork.Process(target=_send_ids, args=(there,))
    child.start()
    theirs = here.recv()
    child.join()
    random_parts = [id_[-16:] for id_ in [*theirs, *(new_id("log") for _ in range(300))]]
    assert len(set(random_parts)) == 600
