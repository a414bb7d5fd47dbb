"""What the requests of one process share: its limits, rooms and places, and how many are being carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from service.deadlines import Deadlines
from service.fairness.bodies import Shares
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.offload import Apart, Offload
from service.fairness.semaphore import FairSemaphore
from service.http.body.read_limited import Discarding, body_room
from service.http.body.upload import SPOOLED_BYTES, SPOOLED_SHARE
from service.http.declare.bound import Bound
from service.http.declare.endpoint import Operation
from service.http.edge.limits import RateLimiter, RefusalPace, crowd_of_place, requests_in_flight
from service.http.edge.origin import Networks
from service.http.measure.metrics import AccessLog
from service.http.waiting.streams import Streams
from service.http.waiting.waits import Waits
from service.services import Services

MAX_RUNNING = 1024  # requests carried out at once
MOST_OF_PLACE = MAX_RUNNING // 2  # of those in one place that is shared, an address of it half of them
MOST_DOCUMENTS = 4  # large bodies that are more than bytes at once; the others wait for their turn
MOST_TELEMETRY = 16  # likewise of telemetry
STRANGERS_BYTES = 16 * 1024 * 1024  # of bodies that have to be read before their sender is known
MOST_OFFLOADED = 16  # pieces of one account that wait for the other process
MOST_UPLOADS = 16  # bodies that are stored while they arrive
MOST_UPLOADED = 4  # bodies in files that are read at once
MAX_READING = 4096  # bodies still arriving at once; each has its own deadline


class Observer(Protocol):
    """Hears of every answer, for metrics."""

    def answered(
        self,
        operation: str,
        status: int,
        code: str | None,
        seconds: float,
        records: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        """One answer of an operation; `code` when it was an error, `records` when its request had several."""


class Pipeline:
    """The limits and counts of one process, with its share of each. `services` is set while the process is up."""

    def __init__(self, limiter: RateLimiter, observer: Observer) -> None:
        self.services: Services | None = None
        self.limiter = limiter
        self.in_flight = requests_in_flight(MAX_RUNNING)
        self.crowd = crowd_of_place(MOST_OF_PLACE, MOST_OF_PLACE // 2)
        self.pace = RefusalPace()
        self.bodies = body_room()
        self.files = body_room(SPOOLED_BYTES, SPOOLED_SHARE)
        self.strangers = body_room(STRANGERS_BYTES, STRANGERS_BYTES // 2)
        self.discarding = Discarding()
        self.trusted_proxies: Networks = ()
        self.observer = observer
        self.access = AccessLog()
        self.operations: Mapping[str, Operation] = {}
        self.bound: Mapping[str, Bound] = {}
        self.reading = 0
        self.running = 0
        self.most_reading = SHARE.of(MAX_READING)
        self.most_running = SHARE.of(MAX_RUNNING)
        self.ignored: Counter[str] = Counter()
        self.waits = Waits()
        self.streams = Streams()
        self.deadlines = Deadlines()
        self.turns = Shares()
        self.apart = Apart(waiting=MAX_RUNNING)
        self.offload = Offload(waiting=MOST_OFFLOADED)
        # A piece of each is in memory; what is large takes its sender's time, so one account gets few places.
        self.uploads = _places(MOST_UPLOADS, MOST_UPLOADS // 4, waiting=MOST_UPLOADS)
        # A document takes ten times its bytes once it is parsed, and is copied several times until it is stored.
        self.documents = _places(MOST_DOCUMENTS, MOST_DOCUMENTS // 2)
        # A large body of telemetry may hold thousands of records, each of which waits for its commit.
        self.telemetry = _places(MOST_TELEMETRY, MOST_TELEMETRY // 4)
        # What unpacks a body may look back on 16 MiB of it, and an event of it is more than bytes once it is read.
        self.uploaded = _places(MOST_UPLOADED, MOST_UPLOADED // 2)

    def run(self, crowd: str, number: int) -> None:
        """Count requests as running, or with a negative number out, in all and of a crowd."""
        self.running += number
        if crowd:
            self.crowd.bounds.add(crowd, number)

    def end_waits(self) -> None:
        """Answer all waiting and held requests, end all streams without an end: the process ends."""
        self.waits.stop()
        self.streams.stop()
        self.pace.end()


def _places(most: int, of_tenant: int, waiting: int = MAX_RUNNING) -> FairSemaphore:
    """The places of this process for what is large."""
    return FairSemaphore(FairBounds(SHARE.of(most, least=2), per_tenant=SHARE.of(of_tenant)), waiting=waiting)
