"""The log of the service as the eventsourcing library reads it: `PERSISTENCE_MODULE=service.eventstore.library`.

A program names this module in its environment and uses the library's Application, notification log and ProjectionRunner
over a live service. Its positions are those of the log, without gaps, so a reader that tracks them in a database of its
own sees each event once. Nothing is written here: commands go through their machines.

It is the recorder that the service itself reads by, on a connection of its own.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, NoReturn

from eventsourcing.persistence import InfrastructureFactory, NotSupportedError, ProgrammingError, TrackingRecorder

import statemachines
from service.eventstore.recorder import AddressedDatastore, FencedRecorder
from service.eventstore.stored import ErasedEvent, MsgspecMapper

__all__ = ["ADDRESS", "ErasedEvent", "Factory"]

ADDRESS = "SERVICE_DATABASE_URL"


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
