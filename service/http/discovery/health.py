"""Health and metrics of a process, and the well-known addresses for strangers (extensions of the document)."""

from datetime import UTC, datetime, time, timedelta
from functools import partial

from litestar import Litestar

from schemas.discovery import Live, Ready
from service.auth.authority import PrincipalKind
from service.auth.refusals import NotFound
from service.discovery.reads import figures, readiness
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.turns import NOBODY
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who

PUBLIC = frozenset({PrincipalKind.ANONYMOUS})
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TEXT_TYPE = "text/plain; charset=utf-8"
SECURITY_PATH = "/.well-known/security.txt"
TRUSTED_DAYS = 90
"""Days until a copy of security.txt is stale."""


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


@groups.OPERATIONS.get(SECURITY_PATH, "Read where to report a vulnerability of this installation")
@Who(PUBLIC)
@Docs(str, errors=("not_found",), extension=True, content_type=TEXT_TYPE)
async def get_security_contact(call: Call) -> Outcome:
    """Serve the contacts in the form of RFC 9116. Raises NotFound for an operator who names none."""
    settings = call.services.settings
    if settings.security_contact is None:
        raise NotFound("This installation names no contact.", next_action="The operator sets SERVICE_SECURITY_CONTACT.")
    stale = datetime.combine(datetime.now(UTC).date() + timedelta(days=TRUSTED_DAYS), time(tzinfo=UTC))
    lines = [
        *(f"Contact: {contact}" for contact in settings.security_contact),
        f"Expires: {stale:%Y-%m-%dT%H:%M:%SZ}",
        "Preferred-Languages: en",
        f"Canonical: {settings.base_url}{SECURITY_PATH}",
    ]
    return Outcome(200, "".join(f"{line}\n" for line in lines).encode(), {"cache-control": "public, max-age=3600"})


@groups.OPERATIONS.get("/.well-known/change-password", "Find the page where people change their password")
@Who(PUBLIC)
@Docs({303: None}, errors=("not_found",), extension=True, content_type=TEXT_TYPE)
async def find_change_password(call: Call) -> Outcome:
    """Lead to the page at the issuer where people sign in. Raises NotFound for an installation without passwords."""
    address = call.services.settings.change_password_url
    if address is None:
        raise NotFound(
            "This installation has no passwords.",
            next_action="The operator sets SERVICE_CHANGE_PASSWORD_URL where people sign in with a password elsewhere.",
        )
    return Outcome(303, b"", {"location": address})


ENDPOINTS = [get_live, get_ready, get_metrics, get_security_contact, find_change_password]
