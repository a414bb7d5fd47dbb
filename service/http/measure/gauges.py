"""What an API process shows of itself in /metrics: how much waits and is held now, and what its parts have counted."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from service.archives.archive import Archives
from service.archives.making import ArchiveCounts
from service.eventstore.connect.connection import FULL_DISK, OUTAGE
from service.eventstore.store import COMMANDS, FENCES, READS, EventStore
from service.fairness.turns import Rests
from service.http.measure.metrics import Joined, Labelled, Metrics
from service.ingest.outcomes import SdkCounts
from service.services import Services


class Load(NamedTuple):
    """What a process carries at a moment. `services` is None while it is not up."""

    services: Services | None
    running: int
    reading: int
    waiting: int
    streams: int
    body_bytes: int
    ignored: Mapping[str, int]


class _Gauge(NamedTuple):
    name: str
    description: str
    read: Callable[[Load], float]
    joined: Joined = "livesum"  # how those of several processes become one


class _Total(NamedTuple):
    """A count of the store, by the values of `label` when it has one."""

    name: str
    description: str
    read: Callable[[EventStore], float | Mapping[str, float]]
    label: str = ""


def _waiting(kind: str) -> Callable[[Load], float]:
    return lambda load: 0 if load.services is None else load.services.store.waiting[kind]


def _of_intake(load: Load, name: str, otherwise: Any = 0) -> Any:
    """What the intake knows under a name, `otherwise` while the process is not up."""
    return otherwise if load.services is None else getattr(load.services.intake, name, otherwise)


def _of_archives(read: Callable[[Archives], float]) -> Callable[[Load], float]:
    return lambda load: 0 if load.services is None else read(load.services.archives)


GAUGES = (
    _Gauge("service_requests_running", "Requests being carried out.", lambda load: load.running),
    _Gauge("service_requests_waiting", "Requests that wait for a change.", lambda load: load.waiting),
    _Gauge("service_streams_open", "Streamed answers on their way.", lambda load: load.streams),
    _Gauge(
        "service_archives_open",
        "Archives of projects that are being made or sent.",
        _of_archives(lambda archives: archives.under_way),
    ),
    _Gauge(
        "service_archives_held_bytes",
        "Bytes on the disk of archives that are being made or sent, in files that no folder lists.",
        _of_archives(lambda archives: archives.held),
    ),
    _Gauge("service_bodies_arriving", "Requests whose body is arriving.", lambda load: load.reading),
    _Gauge("service_body_bytes", "Bytes of bodies of requests in flight.", lambda load: load.body_bytes),
    _Gauge("service_commands_waiting", "Commands in the queues of the loops.", _waiting(COMMANDS)),
    _Gauge("service_fences_waiting", "Fences in the queues of the lanes.", _waiting(FENCES)),
    _Gauge("service_reads_waiting", "Reads that wait for a turn.", _waiting(READS)),
    _Gauge(
        "service_queries_waiting",
        "Queries that wait for a turn.",
        lambda load: 0 if load.services is None else load.services.queries.waiting,
    ),
    _Gauge(
        "service_states_bytes",
        "Memory of the states that the loops keep.",
        lambda load: 0 if load.services is None else load.services.store.kept_bytes,
    ),
    _Gauge("service_ingest_waiting", "Records in the queues of the intake.", lambda load: _of_intake(load, "depth")),
    _Gauge(
        "service_new_cases_limit",
        "Cases that a project may open in an hour.",
        lambda load: 0 if load.services is None else load.services.settings.new_cases_per_hour,
        "livemax",
    ),
    _Gauge(
        "service_tenants_resting",
        "Tenants that leave something scarce to their neighbours now.",
        lambda _: Rests.resting(),
    ),
    _Gauge("service_disk_full", "API processes whose latest writes found the disk full.", lambda _: FULL_DISK.lasts),
    _Gauge("service_database_gone", "API processes that find the database gone.", lambda _: OUTAGE.lasts),
)
TOTALS = (
    _Total("service_commands", "Commands that the loops took into a transaction.", lambda store: store.loop.commands),
    _Total("service_rounds", "Transactions that the loops began.", lambda store: store.loop.rounds),
    _Total("service_fences", "Fences that the lanes have answered.", lambda store: store.lane.fences),
    _Total(
        "service_rests",
        "Times that an account was held back after it had kept something scarce for long.",
        lambda _: Rests.begun,
    ),
    _Total("service_gate_holders_ended", "Sessions ended for a fence.", lambda store: store.lane.holders_ended),
    _Total(
        "service_in_doubt",
        "Commands whose transaction lost its connection, by kind of caller.",
        lambda store: {"loop": store.loop.in_doubt, "lane": store.lane.in_doubt},
        "part",
    ),
)


def measure(metrics: Metrics, look: Callable[[], Load]) -> None:
    """Show all of it. `look` says what the process carries when it is asked."""
    for gauge in GAUGES:
        metrics.gauge(gauge.name, gauge.description, partial(_of_gauge, look, gauge), gauge.joined)
    for total in TOTALS:
        labels = [total.label] if total.label else []
        metrics.total(total.name, total.description, labels, partial(_of_store, look, total))
    metrics.total(
        "service_archives",
        "Archives of projects whose making has ended, by outcome.",
        ["outcome"],
        lambda: {(outcome,): count for outcome, count in _archived(look()).ended.items()},
    )
    metrics.total(
        "service_archives_making_seconds",
        "Seconds that archives of projects took to make.",
        [],
        lambda: {(): _archived(look()).seconds},
    )
    metrics.total(
        "service_archives_written_bytes",
        "Bytes that were written into archives of projects.",
        [],
        lambda: {(): _archived(look()).bytes},
    )
    metrics.watch_ingest(lambda: int(_of_intake(look(), "suppressed")))
    metrics.total(
        "service_ingest_in_doubt",
        "Records whose flush lost its connection.",
        [],
        lambda: {(): _of_intake(look(), "in_doubt")},
    )
    metrics.total(
        "service_adjusted_values",
        "Values of telemetry that were adjusted before they were stored.",
        [],
        lambda: {(): _of_intake(look(), "adjusted")},
    )
    metrics.total(
        "service_ignored_parameters",
        "Query parameters that their operation does not know, by operation.",
        ["operation"],
        lambda: {(operation,): count for operation, count in look().ignored.items()},
    )
    metrics.total(
        "service_sdk_items",
        (
            "Items received from foreign SDKs, by protocol and type. Of types that are not stored, only "
            "this count is kept."
        ),
        ["protocol", "type"],
        lambda: dict(_of_sdks(look()).items),
    )
    metrics.total(
        "service_sdk_discarded",
        "Items that foreign SDKs report as dropped, by protocol, reason and category.",
        ["protocol", "reason", "category"],
        lambda: dict(_of_sdks(look()).discarded),
    )
    metrics.total(
        "service_scrubbed_values",
        "Values hidden in telemetry, by kind.",
        ["kind"],
        lambda: {(kind,): count for kind, count in _of_intake(look(), "scrubbed", {}).items()},
    )


def _archived(load: Load) -> ArchiveCounts:
    """The counts of archives. Before the process is up they are zero."""
    return ArchiveCounts() if load.services is None else load.services.archives.counts


def _of_sdks(load: Load) -> SdkCounts:
    counts: SdkCounts = _of_intake(load, "sdks", SdkCounts())
    return counts


def _of_gauge(look: Callable[[], Load], gauge: _Gauge) -> float:
    return gauge.read(look())


def _of_store(look: Callable[[], Load], total: _Total) -> Labelled:
    """What the store has counted, nothing while the process is not up."""
    services = look().services
    if services is None:
        return {}
    counted = total.read(services.store)
    return {(label,): count for label, count in counted.items()} if isinstance(counted, Mapping) else {(): counted}
