"""`service log` and the doctor: whether the log is signed, and what to do when it is another one (G-169)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.tlog.notes import parse_vkey
from service.tlog.signing import KeyPair
from tests.service.cli.test_doctor import SECRETS, run, told
from tests.service.eventstore.test_tree import restored
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
