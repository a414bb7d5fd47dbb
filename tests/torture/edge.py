"""The edge at full size: generated requests for as long as a night allows (P18), and the walks of two tenants (P19)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable

from tests.e2e import test_schemathesis as generated
from tests.e2e.callers import make_callers
from tests.support.server import ServerHandle
from tests.torture.runs import Size, Theatre

PRINCIPALS = ("owner", "runner", "ci")
TENANTS = ("tests/e2e/test_principals.py", "tests/e2e/test_tenants.py")
SHOWN = 6000  # characters of a report to show


async def p18(theatre: Theatre, size: Size) -> list[str]:
    """Requests generated from the schema document, by three principals, every check, all phases: never a 5xx."""
    wrong = []
    for principal in PRINCIPALS:
        with theatre.cluster.database() as url:
            directory = theatre.directory / principal
            directory.mkdir()
            server = ServerHandle(directory, database_url=url)
            try:
                await asyncio.to_thread(server.start)
                callers = await asyncio.to_thread(make_callers, server)
                done = await asyncio.to_thread(
                    generated.run,
                    server,
                    callers,
                    directory,
                    "--max-examples=1000",
                    f"--max-time={size.seconds:g}",
                    "--phases=examples,coverage,fuzzing,stateful",
                    principal=principal,
                )
            finally:
                server.stop()
        theatre.say(f"{principal}: {done.stdout.strip().splitlines()[-1:]}")
        if done.returncode:
            wrong.append(f"{principal}: {done.stdout[-SHOWN:]}{done.stderr[-SHOWN:]}")
        if "request_failed" in server.log():
            wrong.append(f"{principal}: a request failed inside the service")
    return wrong


async def p19(theatre: Theatre, _: Size) -> list[str]:
    """Every route by every principal, and one tenant's whole path walked by another."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TENANTS]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    theatre.say(done.stdout.strip().splitlines()[-1])
    return [] if done.returncode == 0 else [done.stdout[-SHOWN:]]


RUNS: dict[str, Callable[[Theatre, Size], Awaitable[list[str]]]] = {"P18": p18, "P19": p19}
FULL = {"P18": Size(0, 400), "P19": Size(0)}
"""Seconds of generated requests for each principal."""
