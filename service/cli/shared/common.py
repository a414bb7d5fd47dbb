"""What commands share: settings, the database, output for people and for programs, progress."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from service.settings import Settings, load_settings

if TYPE_CHECKING:
    import psycopg

    from service.eventstore.store import EventStore

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

OWN_COMMAND = re.compile(r"`service (?=[a-z-])")
LOG_LINE_SECONDS = 2.0
FILE_WIDTH = 1000  # characters a line, when no terminal limits it

MOST = 2**63 - 1  # what the database takes as a number
COUNT = click.IntRange(min=0, max=MOST)
json_option: Callable[[F], F] = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


# What moves a cursor, gives a terminal orders, or turns the direction of text: C0 but tabs and ends of lines, DEL, C1,
# marks of direction, separators of lines, halves of pairs.
_ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


_CANNOT_LOOK = 4
_looking = False


class CannotLook(click.ClickException):
    """A check could not be carried out. Exit code 1 would say that it has found something."""

    exit_code = _CANNOT_LOOK


@contextmanager
def database(*, current: bool = True, makes: bool = False, serves: bool = False) -> Iterator[Settings]:
    """Settings whose database runs for the block, and answers: when it falls silent, the block ends (Silent).

    Which database that is is told on stderr. A process that `serves` tells that itself, and outlives a silence.

    With `current` its schema must be up to date (MigrationError). Only a command that `makes` a database makes one
    where there is none (else ClickException); no command from here makes or needs a secret.
    """
    from service.cli.shared.lookups import place_of, require_current
    from service.cli.shared.silence import noticing_silence
    from service.embedded.attach import attached
    from service.embedded.layout import Layout
    from service.logs import configure

    settings = load_settings(secrets=False)
    if not makes:
        require_database(settings)
    configure("warning" if settings.log_level == "info" else settings.log_level, "cli")
    if not serves:
        say(f"Database: {place_of(settings)}", err=True)
    with (
        attached(Layout(settings.data_dir)) if settings.embedded else nullcontext(),
        nullcontext()
        if serves
        else noticing_silence(settings.database_url, _CANNOT_LOOK if _looking else 1, partial(say, err=True)),
    ):
        if current:
            require_current(settings)
        yield settings


def require_database(settings: Settings) -> None:
    """Raise ClickException when the data directory holds no database: most likely it is not where the data is."""
    from service.embedded.layout import Layout

    if settings.embedded and not Layout(settings.data_dir).begun:
        raise click.ClickException(
            f"There is no database in {settings.data_dir}. Name the directory where the service keeps its data with "
            "--data-dir or SERVICE_DATA_DIR, or a database with SERVICE_DATABASE_URL; `service serve` makes a new one."
        )


@contextmanager
def looking() -> Iterator[None]:
    """Let a check that cannot look at the database end with a code of its own: it found nothing, and proves nothing.

    Asking wrongly stays the usage error that it is.
    """
    from service.cli.shared.failures import explain

    global _looking  # noqa: PLW0603 - a process carries out one command
    _looking = True
    try:
        yield
    except click.UsageError:
        raise
    except Exception as error:
        sentence = error.message if isinstance(error, click.ClickException) else explain(error)
        if sentence is None:
            raise
        raise CannotLook(sentence) from error
    finally:
        _looking = False


@contextmanager
def connection() -> Iterator[psycopg.Connection[Any]]:
    """A connection to the running, current database; autocommit."""
    with database() as settings, connected(settings) as opened:
        yield opened


def connected(settings: Settings) -> psycopg.Connection[Any]:
    """Connect to the database of these settings; autocommit."""
    import psycopg

    return psycopg.connect(settings.database_url, autocommit=True, application_name="service-cli")


def as_owner(settings: Settings) -> Settings:
    """The same settings for work that needs the owner of the tables, where that is a role apart."""
    if settings.migration_database_url is None:
        return settings
    return msgspec.structs.replace(settings, database_url=settings.migration_database_url)


def owner_key() -> str:
    """The key in the environment. Raises UsageError without one."""
    key = os.environ.get("SERVICE_API_KEY", "").strip()
    if not key:
        raise click.UsageError("Set SERVICE_API_KEY to an API key of an owner of the project.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise click.UsageError("SERVICE_API_KEY holds characters of no API key.")
    return key


def with_store(work: Callable[[EventStore], Coroutine[Any, Any, T]]) -> T:
    """Run asynchronous work on a started event store: commands from here take the one write path too."""

    async def run(settings: Settings) -> T:
        from service.eventstore.store import EventStore
        from service.registry import registry

        store = EventStore(settings.database_url, registry())
        try:
            await store.start()
            return await work(store)
        finally:
            await store.stop()

    with database() as settings:
        return asyncio.run(run(settings))


def printable(text: str) -> str:
    r"""A text in which nothing is an order to a terminal: such characters as `\u001b`, which in JSON are the same text.

    Names, titles and payloads are what strangers sent. Everything that a command prints goes through here.
    """
    return _ORDERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def started_as() -> str:
    """The command line as it was started, for a shell in the same folder: a bare name, a path or a module."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        python = "python" if shutil.which("python") == sys.executable else _from_here(Path(sys.executable))
        return f"{python} -m service"
    found = shutil.which("service")
    if program.name != "service" or (found is not None and Path(found).resolve() == program.resolve()):
        return "service"
    return _from_here(program)


def _from_here(program: Path) -> str:
    """The path of a program for a shell in this folder."""
    path = Path(os.path.abspath(program))  # noqa: PTH100 - resolve() would follow the link of an environment
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def advised(text: str) -> str:
    """Name the commands in a text as this one was started, ready to be copied."""
    return OWN_COMMAND.sub(lambda _: f"`{started_as()} ", text)


def say(text: str, *, err: bool = False) -> None:
    """Print a line that may hold stored text; `err` on stderr."""
    click.echo(printable(text), err=err)


def print_json(value: Any) -> None:
    """Print one JSON value on a line; named tuples as objects, times as ISO text, bytes as hex."""
    say(msgspec.json.encode(_plain(value)).decode())


def print_table(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, empty: str, width: int = FILE_WIDTH
) -> None:
    """Print rows as a table, `width` characters wide where no terminal says so; `empty` when there are none."""
    from rich.console import Console
    from rich.table import Table

    listed = list(rows)
    if not listed:
        say(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in listed:
        table.add_row(*(_cell(column, row[column]) for column in columns))
    Console(width=None if sys.stdout.isatty() else width).print(table)


def _cell(column: str, value: Any) -> str:
    """A value as people read it: epoch seconds in a column `…_at` as a date in UTC."""
    if column.endswith("_at") and isinstance(value, int):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%SZ}"
    return "" if value is None else printable(str(value))


def show(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    as_json: bool,
    empty: str = "None.",
    width: int = FILE_WIDTH,
) -> None:
    """Print rows as a JSON array or as a table."""
    if as_json:
        print_json(list(rows))
    else:
        print_table(rows, columns, empty=empty, width=width)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of long work: call what this yields with (done, total).

    A bar on a terminal; elsewhere a line on stderr every two seconds, and where there was one, a last one at the end.
    """
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    began = said = time.monotonic()
    unsaid = ""

    def tell(done: int, total: int) -> None:
        nonlocal said, unsaid
        unsaid = f"{what}: {done} of {total}"
        if time.monotonic() - said >= LOG_LINE_SECONDS:
            said = time.monotonic()
            say(unsaid, err=True)
            unsaid = ""

    yield tell
    if unsaid and said > began:
        say(unsaid, err=True)


def _plain(value: Any) -> Any:
    """Named tuples become objects and bytes hex, at any depth."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else value
