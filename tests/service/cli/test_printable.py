"""What strangers sent gives no orders to a terminal: every command prints it through one function."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import service.cli
from service.cli import main
from service.cli.shared.common import printable

HOSTILE = "\x1b]0;mine\x07\x9b2J\u202e\u2066\x7f\u2028name"
FORBIDDEN = set(HOSTILE) - set("]0;mine2Jname")


def run(url: str, *words: str) -> Result:
    """A command in this process, on this database."""
    unset = dict.fromkeys(name for name in os.environ if name.startswith("SERVICE_"))
    done = CliRunner().invoke(main, words, env={**unset, "SERVICE_DATABASE_URL": url})
    assert not FORBIDDEN & set(done.output), f"{words}: {done.output!r}"
    return done


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_in_json_an_escaped_text_is_the_same_text(text: str) -> None:
    shown = printable(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(shown) == {text: text}
    assert not FORBIDDEN & set(shown)


def test_names_of_strangers_are_shown_escaped(database_url: str) -> None:
    """In a table, in JSON, in the payload of an event, in an export to a terminal, and in what went wrong."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "insert into sign_ins values ('s', 's', 1, 'hash', %s, 'pending', 0, 9000000000, null, false)", (HOSTILE,)
        )
    shown = run(database_url, "keys", "sign-ins").output
    assert r"\u001b]0;mine\u0007\u009b2J" in "".join(shown.split())
    [row] = json.loads(run(database_url, "keys", "sign-ins", "--json").stdout)
    assert row["client_name"] == HOSTILE
    made = run(database_url, "keys", "create", "--email", "one@example.com", "--name", HOSTILE, "--json")
    person = json.loads(made.stdout)["user_id"]
    for words in (("show", person), ("show", person, "--json"), ("replay", person), ("tail",), ("tail", "--json")):
        assert run(database_url, "events", *words).exit_code == 0
    assert r"\u202e" in run(database_url, "events", "show", person).output
    assert "no such person" in run(database_url, "keys", "list", "--person", HOSTILE).output


@pytest.mark.parametrize("path", sorted(Path(service.cli.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_no_command_prints_past_it(path: Path) -> None:
    """Only `common` writes to a terminal; files that a command was told to write are theirs."""
    called = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
    past = called & {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write", "Console", "Table"}
    assert past <= ({"click.echo", "Console", "Table"} if path.stem == "common" else set())
