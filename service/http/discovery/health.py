"""Whether the process lives, whether it can serve, and its metrics (extensions of the document)."""

from functools import partial

from litestar import Litestar

from schemas.discovery import Live, Ready
from service.auth.authority import PrincipalKind
from service.discovery.reads import figures, readiness
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.turns import NOBODY
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who

PUBLIC = frozenset({PrincipalKind.ANONYMOUS})
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@groups.OPERATIONS.get("/health/live", "Check that the process is alive")
@Who(PUBLIC, place=NOBODY)
@Docs(Live, extension=True)
async def get_live() -> Answer:
    """Answer."""
    return Answer(200, Live("live"))


@groups.OPERATIONS.get("/health/ready", "Check that the process can serve, and how far its readers lag")
@Who(PUBLIC, place=NOBODY)
@Docs(Ready, extension=True)
async def get_ready(call: Call) -> Answer:
    """Check database, migrations and log. Raises ServiceUnavailable when requests cannot be served."""
    return Answer(200, await readiness(call.services.store, call.services.settings))


@groups.OPERATIONS.get(
    "/metrics", "Read the metrics of all processes on this machine and of the database, as Prometheus text"
)
@Who(PUBLIC, place=NOBODY, inside=True)
@Docs(str, extension=True, content_type=METRICS_TYPE)
async def get_metrics(call: Call) -> Outcome:
    """Render what all processes of this machine count, and what the database tells."""
    metrics = Litestar.from_scope(call.scope).state.metrics
    body: bytes = await metrics.scrape(partial(figures, call.services.store, call.services.settings))
    return Outcome(200, body, {})


ENDPOINTS = [get_live, get_ready, get_metrics]
