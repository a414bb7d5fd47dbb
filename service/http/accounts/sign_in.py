"""Signing in from a device, and resolving identities (R-AUTH-14 to R-AUTH-18, G-020, G-021)."""

import contextlib

from litestar.di import NamedDependency
from litestar.params import JSONBody

from schemas import accounts as wire
from service.accounts import person, show
from service.accounts import sign_in as commands
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.turns import SIGN_IN
from service.http.accounts import session
from service.http.answer.page import HEADERS, HTML
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from statemachines.accounts.person import Identity, synthetic_identity, without_address
from statemachines.accounts.sign_in import UserCodeTaken

ANYONE = frozenset({PrincipalKind.ANONYMOUS})
INTERNAL = frozenset({PrincipalKind.INTERNAL})
TEST = frozenset({PrincipalKind.TEST})

CODE_ATTEMPTS = 5  # two live sign-ins with one of 20^8 codes are rare; five times in a row, something is broken


@groups.AUTH.post("/v1/auth/device", "Begin a sign-in on a device without a browser")
@Who(ANYONE, place=SIGN_IN)
@Fencing(idempotency="optional", rate="device_start")
@Docs(wire.DeviceStarted, errors=("service_unavailable",), flows=frozenset({"install", "provider"}))
async def start_device(call: Call, data: JSONBody[wire.StartDevice]) -> Outcome:
    """Show a fresh user code. Another one when a live sign-in has it already."""
    call.key = None  # All anonymous callers would share one scope of keys; a key would name another's sign-in.
    for _ in range(CODE_ATTEMPTS - 1):
        with contextlib.suppress(UserCodeTaken):
            return await _start(call, data)
    return await _start(call, data)


async def _start(call: Call, data: wire.StartDevice) -> Outcome:
    intent = commands.start(call.services.store.installation_salt, data.client_name)
    base_url = call.services.settings.base_url
    # Nothing of the answer is stored: it holds the device's secret.
    return await call.carry_out(intent, lambda codes: Answer(200, show.device_started(base_url, codes), pending=True))


@groups.AUTH.post("/v1/auth/device/poll", "Poll a sign-in and receive its key once")
@Who(ANYONE, place=SIGN_IN)
@Fencing(idempotency="optional", rate="device_poll")
@Docs(
    wire.DeviceAuthorized,
    errors=("authorization_pending", "slow_down", "access_denied", "expired_token"),
    flows=frozenset({"install", "provider"}),
)
async def poll_device(call: Call, data: JSONBody[wire.PollDevice]) -> Outcome:
    """Mint the key at the first poll after the authorisation. Before it, watch the pace."""
    call.key = None  # As in start_device; the device code is what makes a poll its own repeat.
    intent = await commands.redeem(call.services.store, data.device_code)
    # Nothing is stored: a redeemed code is expired_token (G-008).
    return await call.carry_out(intent, lambda key: Answer(200, show.device_authorized(key), pending=True))


@groups.AUTH.post("/v1/auth/device/authorize", "Authorize a user code as an identity")
@Who(INTERNAL)
@Fencing(idempotency="optional", rate="internal")
@Docs(wire.SignInAuthorizedBody, errors=("not_found",))
async def authorize_device(call: Call, data: JSONBody[wire.AuthorizeDevice]) -> Outcome:
    """Authorise a sign-in for the person of an identity."""
    salt = call.services.store.installation_salt
    intent = commands.authorize(salt, data.user_code, _identity(salt, data.identity))
    return await call.carry_out(intent, lambda known: Answer(200, show.sign_in_authorized(known)))


@groups.AUTH.post("/v1/auth/device/test-authorize", "Authorize a user code as the synthetic identity of a test run")
@Who(TEST)
@Fencing(idempotency="optional", rate="internal")
@Docs(wire.SyntheticSignInBody, errors=("not_found",))
async def test_authorize_device(call: Call, data: JSONBody[wire.AuthorizeTestDevice]) -> Outcome:
    """Authorise a sign-in for the synthetic person of a test run. The ordinary poll mints the key."""
    test_run_id = data.test_run_id
    identity = synthetic_identity(test_run_id)
    intent = commands.authorize(call.services.store.installation_salt, data.user_code, identity)
    return await call.carry_out(
        intent, lambda known: Answer(200, show.synthetic_sign_in(test_run_id, identity.email, known))
    )


@groups.AUTH.post("/v1/auth/identity/resolve", "Find or create the person of an identity")
@Who(INTERNAL)
@Fencing(idempotency="optional", rate="internal")
@Docs(wire.IdentityResolved)
async def resolve_identity(call: Call, data: JSONBody[wire.ResolveIdentity]) -> Outcome:
    """Find or create the person of an identity."""
    salt = call.services.store.installation_salt
    intent = person.resolve(salt, _identity(salt, data.identity))
    return await call.carry_out(intent, lambda known: Answer(200, show.identity_resolved(known)))


@groups.AUTH.get("/device", "Show how to authorize a user code, as a page")
@Who(ANYONE, place=SIGN_IN)
@Fencing(rate="none")
@Docs(str, extension=True, content_type=HTML)
async def show_device_page(call: Call, params: NamedDependency[wire.DevicePageQuery]) -> Outcome:
    """Show the code of the link and the commands that authorise it."""
    return Outcome(200, session.render(call.services.settings.base_url, params.user_code), HEADERS)


def _identity(salt: str, body: wire.IdentityBody) -> Identity:
    """The identity of a body. Without an address nothing is verified, and a stand-in receives no mail."""
    if body.email is None:
        return without_address(salt, body.provider, body.subject, body.name)
    return Identity(body.provider, body.subject, body.email, body.email_verified, body.name)


ENDPOINTS = [
    start_device,
    poll_device,
    authorize_device,
    test_authorize_device,
    resolve_identity,
    show_device_page,
]
