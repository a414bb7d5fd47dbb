"""Ids are lowercase ULIDs behind their prefix (G-002)."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor

from ulid import ULID

from service.ids import new_id


def test_an_id_is_a_ulid_of_now():
    before = time.time()
    prefix, _, text = new_id("log").partition("_")
    assert (prefix, len(text), text) == ("log", 26, text.lower())
    assert before - 0.002 <= ULID.from_str(text.upper()).timestamp <= time.time() + 0.002


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
