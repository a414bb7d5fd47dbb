"""Durable execution off the shelf: a DBOS workflow of trivial steps, the yardstick of the bench's chains.

DBOS checkpoints each step of a workflow in PostgreSQL, as this service records each transition of a chain. It runs in
process, without HTTP, authentication, fences or read models: the comparison is in its favour.
"""

from __future__ import annotations

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL

from scripts.load.threads import turns_per_second


def system_address(conninfo: str) -> str:
    """Translate a libpq string into the address form that DBOS takes."""
    parts = conninfo_to_dict(conninfo)
    address = URL.create(
        "postgresql+psycopg",
        username=str(parts["user"]),
        password=str(parts["password"]) if "password" in parts else None,
        database=str(parts["dbname"]),
        query={"host": str(parts["host"]), "port": str(parts.get("port", 5432))},
    )
    return address.render_as_string(hide_password=False)


def durable_steps(conninfo: str, *, steps: int, threads: int = 8, seconds: float = 6.0) -> float:
    """Measure the steps per second of workflows of `steps` steps, one after the other in each thread."""
    from dbos import DBOS, DBOSConfig

    config = DBOSConfig(
        name="bench",
        system_database_url=system_address(conninfo),
        sys_db_pool_size=threads + 8,
        log_level="ERROR",
        console_log_level="ERROR",
    )
    DBOS(config=config)

    @DBOS.step()
    def step(number: int) -> int:
        """A step that does nothing."""
        return number + 1

    @DBOS.workflow()
    def chain(number: int) -> int:
        """Run the steps one after the other."""
        for _ in range(steps):
            number = step(number)
        return number

    DBOS.launch()
    try:
        for number in range(threads):
            assert chain(number) == number + steps
        return steps * turns_per_second(lambda _, count: chain(count), threads=threads, seconds=seconds)
    finally:
        DBOS.destroy()
