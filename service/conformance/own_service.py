"""A service of the kit's own, with its database, on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from service.conformance.world.played_service import CannotPlay, ServiceUnderPlay
from service.demo.theatre.stage import DemoFailed
from service.demo.theatre.world import World


class OwnService(NamedTuple):
    """A running service, and room for files beside it."""

    installation: ServiceUnderPlay
    directory: Path


@contextmanager
def own_service() -> Iterator[OwnService]:
    """Start it as the demo does, without rate limits: the kit plays those itself. Raises CannotPlay."""
    with World() as world:
        world.environment["SERVICE_RATE_LIMITS"] = "0"
        try:
            world.start_service()
        except DemoFailed as failure:
            raise CannotPlay(str(failure)) from failure
        directory = world.directory / "scenarios"
        directory.mkdir()
        yield OwnService(ServiceUnderPlay(world.base_url, world.internal_token, world.test_token), directory)
