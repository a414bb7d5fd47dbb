"""`service witness`: a witness for the logs of other installations."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import click

from service.cli.shared.common import say

_STATE = click.option(
    "--state",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the witness: its key, and the newest checkpoint of each log.",
)
_NAME = click.option("--name", required=True, help="Name of the witness in its keys, such as w1.example.com.")


@click.group()
def witness() -> None:
    """Cosign the logs of other installations, after C2SP tlog-witness."""


@witness.command()
@_STATE
@_NAME
def keys(directory: Path, name: str) -> None:
    """Print the public keys of the witness as vkeys, made at the first call."""
    for key in _pair(directory, name).as_witness(name):
        say(key.vkey)


@witness.command()
@_STATE
@_NAME
@click.option("--log", "logs", required=True, multiple=True, help="Key of a log to cosign, as a vkey. Repeatable.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8100, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on.")
def serve(directory: Path, name: str, logs: tuple[str, ...], host: str, port: int) -> None:
    """Serve `POST /add-checkpoint` and `GET /<origin hash>/checkpoint` until SIGTERM or Ctrl-C.

    The name of a log's key is its origin. A checkpoint is cosigned only if it continues the last
    one, also after a kill.
    """
    from service.logs import configure
    from service.process.children import leave
    from service.tlog.notes import MalformedNote, parse_vkey
    from service.witness.server import StateInUse, Witness, WitnessState

    configure("info", "witness")
    known: dict[str, list[Any]] = {}
    try:
        for text in logs:
            key = parse_vkey(text)
            known.setdefault(key.name, []).append(key)
    except MalformedNote as error:
        raise click.BadParameter(str(error), param_hint="--log") from error
    pair = _pair(directory, name)
    try:
        state = WitnessState(directory)
    except (StateInUse, OSError) as error:
        raise click.ClickException(str(error)) from error
    try:
        asyncio.run(_run(Witness(name, pair, state, known), host, port))
    except OSError as error:
        raise click.ClickException(f"{host}:{port} cannot be listened on: {error.strerror}") from error
    finally:
        state.close()
    leave()  # granian's thread may not meet the end of an interpreter that is taken apart


async def _run(running: Any, host: str, port: int) -> None:
    """Serve until a signal."""
    from service.witness.serving import WitnessServer

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = WitnessServer(running)
    bound = await server.start(host, port)
    say(f"Witness {running.name} on http://{host}:{bound}")
    await stopping.wait()
    await server.stop()


def _pair(directory: Path, name: str) -> Any:
    """Read the keys of a directory. Raises ClickException."""
    from service.tlog.notes import is_name
    from service.witness.server import read_pair

    if not is_name(name):
        raise click.BadParameter("must not be empty, nor have spaces or plus signs", param_hint="--name")
    try:
        return read_pair(directory)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"The key in {directory} cannot be made or read: {error}") from error
