"""SQL functions: one file each, applied when the text changes, never with another signature, always by name."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

import service
from service.eventstore.schema import functions, migrations
from service.eventstore.schema.functions import Function
from service.eventstore.schema.migrations import MigrationError, MigrationStanding

Sql = psycopg.Connection[Any]
ROOM = Path(service.__file__).parent
DOUBLE = "create or replace function double(n bigint) returns bigint language sql as $$ select {} $$;"


def made(name: str, text: str) -> Function:
    return Function(name, text, hashlib.sha256(text.encode()).hexdigest())


def double(body: str = "n * 2") -> Function:
    return made("double", DOUBLE.format(body))


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def apply(url: str, *files: Function) -> list[str]:
    """Migrate a database to this version's files and these functions."""
    return migrations.migrate(url, migrations.discover(), functions=list(files))


def call(sql: Sql, query: str) -> Any:
    row = sql.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


# ---- the files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", functions.discover(), ids=lambda function: function.name)
def test_a_file_replaces_the_function_of_its_name(function: Function):
    """One statement, so that whoever looks for a function finds its text, and nothing else, in its file."""
    code = "\n".join(line for line in function.sql.splitlines() if not line.startswith("--"))
    assert re.match(rf"create or replace function {function.name}\(", code)
    assert len(re.findall(r"create (or replace )?function", code)) == 1
    assert code.endswith("$body$;")
    assert function.sql.startswith("-- "), "says what it does"


def test_every_function_of_the_database_has_its_file(sql: Sql):
    """But those of the job library."""
    rows = sql.execute(
        "select proname::text from pg_proc where pronamespace = 'public'::regnamespace "
        "and not starts_with(proname, 'procrastinate_')"
    ).fetchall()
    assert sorted(name for (name,) in rows) == [function.name for function in functions.discover()]


def test_no_new_migration_replaces_a_function():
    """It would be undone by the file, or undo it. Those that made the first ones cannot be changed any more."""
    before = {"0001_clock", "0002_event_store", "0030_ingest", "0070_ingest_count", "0071_ingest_check"}
    for migration in migrations.discover():
        if migration.name not in {*before, migrations.JOB_SCHEMA}:
            assert "replace function" not in migration.sql, migration.name


def test_functions_are_called_with_named_arguments():
    """Two releases run side by side: a parameter that is added must not shift the others under a caller."""
    names = "|".join(function.name for function in functions.discover())
    positional = re.compile(rf"\b(?:{names})\((?!\)|\w+ => )")
    found = []
    for path in ROOM.rglob("*.py"):
        tree = ast.parse(path.read_text())
        texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        found += [(path.name, text.lineno) for text in texts if positional.search(str(text.value))]
    assert found == []


# ---- applying -----------------------------------------------------------------------------------------------------


def test_a_function_is_applied_when_its_text_changes_and_only_then(database_url: str, sql: Sql):
    assert apply(database_url, double()) == ["functions/double"]
    assert call(sql, "select double(n => 4)") == 8
    [before] = sql.execute("select applied_at from schema_functions where name = 'double'").fetchall()
    assert apply(database_url, double()) == []
    assert sql.execute("select applied_at from schema_functions where name = 'double'").fetchall() == [before]
    assert apply(database_url, double("n + n + 1")) == ["functions/double"]
    assert call(sql, "select double(n => 4)") == 9


def test_one_that_is_gone_is_made_again(database_url: str, sql: Sql):
    """The ledger alone does not tell whether a function is there."""
    apply(database_url, double())
    sql.execute("drop function double(bigint)")
    assert apply(database_url, double()) == ["functions/double"]
    assert call(sql, "select double(n => 4)") == 8


def test_many_runners_at_once_apply_each_text_once(database_url: str):
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: apply(database_url, double()), range(4)))
    assert sorted(done) == [[], [], [], ["functions/double"]]


def test_functions_may_call_each_other_in_any_order(database_url: str, sql: Sql):
    """But a call of what is nowhere is found, and nothing is applied then."""
    first = made("a_caller", "create function a_caller() returns bigint language sql as $$ select double(n => 3) $$;")
    assert apply(database_url, first._replace(sql=first.sql.replace("create", "create or replace")), double()) == [
        "functions/a_caller",
        "functions/double",
    ]
    assert call(sql, "select a_caller()") == 6
    lost = made("lost", "create or replace function lost() returns int language sql as $$ select nowhere() $$;")
    with pytest.raises(psycopg.errors.UndefinedFunction):
        apply(database_url, double("n * 3"), lost)
    assert call(sql, "select double(n => 4)") == 8


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("double(n bigint, more bigint) returns bigint", id="one parameter more"),
        pytest.param("double(n bigint, more bigint default 0) returns bigint", id="one more that has a default"),
        pytest.param("double(m bigint) returns bigint", id="another name"),
        pytest.param("double(n int) returns bigint", id="another type"),
        pytest.param("double(n bigint) returns text", id="another result"),
        pytest.param("twice(n bigint) returns bigint", id="another function"),
    ],
)
def test_another_signature_is_refused(database_url: str, sql: Sql, head: str):
    """The release before calls the old one, by these names. Nothing of the refused text stays."""
    apply(database_url, double())
    changed = made("double", f"create or replace function {head} language sql as $$ select 1 $$;")
    if "twice" in head:
        sql.execute("drop function double(bigint)")
    with pytest.raises(MigrationError, match="functions/double has another signature"):
        apply(database_url, changed)
    left = sql.execute("select oid::regprocedure::text from pg_proc where proname in ('double', 'twice')").fetchall()
    assert left == ([] if "twice" in head else [("double(bigint)",)])


def test_a_new_signature_takes_a_new_name(database_url: str, sql: Sql):
    """Old and new stand side by side, until a later release drops the old one by a migration."""
    apply(database_url, double())
    text = (
        "create or replace function double_more(n bigint, more bigint) returns bigint language sql as $$ select 1 $$;"
    )
    assert apply(database_url, made("double_more", text)) == ["functions/double_more"]
    assert call(sql, "select double(n => 4) + double_more(n => 1, more => 1)") == 9
    drop = migrations.Migration("0900_drop_double", "drop function double(bigint)", "c")
    files = migrations.discover()
    migrations.migrate(database_url, [*files, drop], functions=[made("double_more", text)])
    with pytest.raises(psycopg.errors.UndefinedFunction):
        call(sql, "select double(n => 4)")


def test_an_older_release_leaves_the_text_of_a_later_one_alone(sql: Sql):
    """It starts beside it, again and again, while hosts are brought forward one by one."""
    assert functions.apply(sql, [double()], "3.0.0") == [double()]
    later = double("n * 2 + 0")
    assert functions.apply(sql, [later], "3.1.0") == [later]
    assert functions.pending(sql, [double()], "3.0.0") == []
    assert functions.apply(sql, [double()], "3.0.0") == []
    assert functions.apply(sql, [later], "3.1.0") == []
    assert functions.apply(sql, [double()], "3.1.0") == [double()], "the same release may go back"
    assert functions.apply(sql, [double("n * 2 + 1")], "3.10.0")


def test_functions_stand_beside_the_migrations(database_url: str, sql: Sql, monkeypatch: pytest.MonkeyPatch):
    """Each is shown; one whose text is not the database's is pending."""
    shown = dict(migrations.status(sql))
    assert shown["functions/service_now"] is MigrationStanding.APPLIED
    assert {path for path in shown if path.startswith("functions/")} == {f.path for f in functions.discover()}
    monkeypatch.setattr(functions, "discover", lambda: [double()])
    assert dict(migrations.status(sql))["functions/double"] is MigrationStanding.PENDING
    assert migrations.migrate(database_url) == ["functions/double"]
    assert dict(migrations.status(sql))["functions/double"] is MigrationStanding.APPLIED
