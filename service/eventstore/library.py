"""The log of the service as the eventsourcing library reads it: `PERSISTENCE_MODULE=service.eventstore.library`.

A program names this module in its environment and uses the library's Application, notification log and ProjectionRunner
over a live service. Its positions are those of the log, without gaps, so a reader that tracks them in a database of its
own sees each event once. Nothing is written here: commands go through their machines.

It is the recorder that the service itself reads by, on a connection of its own.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any, NoReturn

import psycopg
from eventsourcing.persistence import (
    DatabaseError,
    InfrastructureFactory,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    TrackingRecorder,
)
from eventsourcing.postgres import PostgresDatastore

import statemachines
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import ErasedEvent, MsgspecMapper
from service.settingvalues import BadValue, database_url

__all__ = ["ADDRESS", "ErasedEvent", "Factory"]

ADDRESS = "SERVICE_DATABASE_URL"


class AddressedDatastore(PostgresDatastore):
    """A connection to an address, opened when it is needed and again after it was lost. Threads use it in turn.

    Errors come as those that the library declares.
    """

    def __init__(self, conninfo: str) -> None:
        super().__init__("", "", "", "", "", originator_id_type="text")
        self._conninfo = conninfo
        self._opened: psycopg.Connection[Any] | None = None
        self._lock = RLock()

    def register_type_adapters(self) -> None:
        """Need none."""

    @contextmanager
    def get_connection(self) -> Iterator[Any]:
        """Lend it. Raises the library's OperationalError, ProgrammingError or DatabaseError."""
        with self._lock:
            try:
                if self._opened is None or self._opened.broken:
                    self._opened = psycopg.connect(self._conninfo, autocommit=True)
                yield self._opened
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                raise OperationalError(error) from error
            except psycopg.ProgrammingError as error:
                raise ProgrammingError(error) from error
            except psycopg.Error as error:
                raise DatabaseError(error) from error

    def close(self) -> None:
        """Close it."""
        with suppress(AttributeError), self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None


class Factory(InfrastructureFactory[TrackingRecorder]):
    """What the library asks for, over the database of the service.

    `SERVICE_DATABASE_URL` names it, also with the application's name before it, as the library looks up each setting.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._recorders: list[FencedRecorder] = []
        _import_machines()

    def mapper(self, transcoder: Any = None, mapper_class: Any = None) -> Any:  # noqa: ARG002
        """Return our mapper: payloads have one form."""
        return MsgspecMapper()

    def aggregate_recorder(self, purpose: str = "events") -> FencedRecorder:
        """Return a recorder of the streams. Raises NotSupportedError for snapshots."""
        if purpose != "events":
            raise NotSupportedError("the snapshots of the service are not those of the library: leave them off")
        return self.application_recorder()

    def application_recorder(self) -> FencedRecorder:
        """Return a recorder of the log. Raises ProgrammingError without an address."""
        address = self.env.get(ADDRESS)
        if not address:
            raise ProgrammingError(f"set {ADDRESS} to the database of the service, best with a role that only reads")
        with suppress(BadValue):  # any string of libpq will do here, and a standby where it says so
            address = database_url(address)
        self._recorders.append(FencedRecorder(AddressedDatastore(address)))
        return self._recorders[-1]

    def tracking_recorder(self, tracking_recorder_class: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse. A reader tracks its place in a database of its own."""
        raise NotSupportedError(
            "track your place in a database of your own: set PERSISTENCE_MODULE for your projection, "
            "with its name before it, such as COUNTER_PERSISTENCE_MODULE=eventsourcing.sqlite"
        )

    def process_recorder(self) -> NoReturn:
        """Refuse, because it writes events beside its place."""
        raise NotSupportedError("an application that writes events has a database of its own")

    def close(self) -> None:
        """Close the connections."""
        for recorder in self._recorders:
            recorder.close()


def _import_machines() -> None:
    """Import each machine, so that each event can be read."""
    for found in pkgutil.walk_packages(statemachines.__path__, "statemachines."):
        importlib.import_module(found.name)
