"""`service log` and the doctor: whether the log is signed, and what to do when it is another one (G-169)."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.tlog.notes import Checkpoint, KeyPair, VerifierKey, parse_vkey
from service.tlog.tree import latest_checkpoint
from service.witness.server import read_pair
from tests.service.cli.test_doctor import SECRETS, run, told
from tests.service.tlog.test_tree import restored
from tests.service.witness.test_asking import witnesses
from tests.support.server import SIGNING_KEY
from tests.support.trees import fill, sign_all, signer_at


@pytest.fixture
def base(database_url: str, tmp_path: Path) -> dict[str, str]:
    return {"SERVICE_DATABASE_URL": database_url, "SERVICE_DATA_DIR": str(tmp_path), **SECRETS}


def shown(*words: str, **env: str) -> tuple[int, Any]:
    done = run("log", *words, "--json", **env)
    return done.exit_code, json.loads(done.stdout)


def test_another_log_is_told_by_exit_code_and_doctor_until_it_is_continued(
    database_url: str, tmp_path: Path, base: dict[str, str]
) -> None:
    signer = signer_at(tmp_path, bytes.fromhex(SIGNING_KEY))
    with psycopg.connect(database_url, autocommit=True) as sql:
        fill(sql, 300)
        sign_all(sql, signer)
        [[origin]] = sql.execute("select origin from log_origins").fetchall()
        code, status = shown("status", **base)
        assert (code, status["verdict"], status["signed_size"], status["origin"]) == (0, "same", 300, origin)
        assert told(**base)["signed log"]["result"] == "ok"
        assert run("log", "continue", **base).exit_code == 1
        code, keys = shown("keys", **base)
        pair = KeyPair.derive(bytes.fromhex(SIGNING_KEY), "log")
        assert {parse_vkey(row["vkey"]) for row in keys} == set(pair.as_log(origin))
        lines = run("log", "keys", **base).stdout.splitlines()
        assert {parse_vkey(line) for line in lines} == set(pair.as_log(origin)), "a file for --key @keys"
        assert code == 0
        restored(sql)
    code, status = shown("status", **base)
    assert (code, status["verdict"]) == (1, "shorter")
    assert "Not signed (shorter): 300 events were signed" in run("log", "status", **base).stdout
    doctor = run("doctor", "--json", **base)
    assert doctor.exit_code == 1
    finding = next(row for row in json.loads(doctor.stdout) if row["check"] == "signed log")
    assert finding["result"] == "wrong"
    assert "service log continue" in finding["detail"]
    code, done = shown("continue", **base)
    assert (code, done["continues"], done["at_size"]) == (0, origin, 300)
    code, status = shown("status", **base)
    assert (code, status["origin"], status["continues"], status["signed_size"]) == (0, done["origin"], origin, None)
    assert told(**base)["signed log"]["result"] == "ok"


@contextmanager
def running_witnesses(directory: Path, keys: Sequence[VerifierKey], count: int) -> Iterator[list[str]]:
    """Witnesses in a thread: a command of ours needs the main one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = witnesses(directory, tuple(keys), count)
    try:
        yield asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_the_doctor_looks_at_the_witnesses_of_the_policy(
    database_url: str, tmp_path: Path, base: dict[str, str]
) -> None:
    """A file that is none, witnesses that do not answer, a quorum that is missing, and one that is there."""
    signer = signer_at(tmp_path, bytes.fromhex(SIGNING_KEY))
    policy = tmp_path / "policy"
    env = {**base, "SERVICE_WITNESS_POLICY": str(policy), "SERVICE_WITNESS_ALLOW_PRIVATE": "1"}

    def finding(**more: str) -> tuple[str, str]:
        found = told(**{**env, **more})["witnesses"]
        return found["result"], found["detail"]

    assert "witnesses" not in told(**base)
    assert finding()[0] == "wrong"
    policy.write_text("quorum nobody")
    assert finding()[0] == "wrong"
    with psycopg.connect(database_url, autocommit=True) as sql:
        fill(sql, 300)
        sign_all(sql, signer)
        kept = latest_checkpoint(sql)
        assert kept is not None
        with running_witnesses(tmp_path, signer.pair.as_log(kept.origin), 2) as lines:
            absent = VerifierKey("w9.example", 4, bytes(32)).vkey
            both = "group g all w0m w1m\nquorum g\n"
            policy.write_text("\n".join([*lines, both]))
            result, detail = finding()
            assert (result, detail) == ("warning", "2 of 2 answer; no quorum has cosigned any of 300 signed events")
            result, detail = finding(SERVICE_WITNESS_ALLOW_PRIVATE="0")
            assert (result, detail.partition(";")[0]) == ("warning", "0 of 2 answer")
            checkpoint = Checkpoint(kept.origin, kept.size, kept.root)
            for number in range(2):
                name = f"w{number}.example"
                cosigned = read_pair(tmp_path / f"w{number}").cosign(name, checkpoint, 5)
                sql.execute(
                    "insert into log_cosignatures values (%s, 300, %s, %s, clock_timestamp() - interval '90 s')",
                    (kept.origin, name, "".join(one.line for one in cosigned)),
                )
                result, detail = finding()
                if number == 0:
                    assert (result, "no quorum" in detail) == ("warning", True)
            assert result == "ok"
            assert re.fullmatch(r"2 of 2 answer; a quorum has cosigned 300 of 300 signed events, \d+ s ago", detail)
            policy.write_text("\n".join([*lines, f"witness w9 {absent} http://127.0.0.1:9/", both]))
            result, detail = finding()
            assert (result, "2 of 3 answer; w9.example: No connection could be made.;" in detail) == ("warning", True)
            policy.write_text("\n".join([*lines, both]))
            fill(sql, 7)
            time.sleep(0.25)
            sign_all(sql, signer)
            result, detail = finding()
            assert (result, "300 of 307 signed events" in detail) == ("warning", True)
            policy.write_text("\n".join([*lines, "quorum none"]))
            assert finding() == ("ok", "2 of 2 answer; the policy asks for no quorum")


def test_a_witness_is_told_what_is_wrong_with_its_words(tmp_path: Path) -> None:
    state = str(tmp_path / "w")
    done = run("witness", "keys", "--state", state, "--name", "w1.example")
    first, second = map(parse_vkey, done.stdout.split())
    assert (first.name, first.kind, second.kind) == ("w1.example", 4, 6)
    assert run("witness", "keys", "--state", state, "--name", "w1.example").stdout == done.stdout
    assert (tmp_path / "w" / "key").stat().st_mode & 0o077 == 0
    for words in (("--name", "two words"), ("--name", "w1", "--log", "no key")):
        wrong = run("witness", "serve", "--state", state, "--log", first.vkey, *words)
        assert wrong.exit_code == 2
        assert "Traceback" not in wrong.output
