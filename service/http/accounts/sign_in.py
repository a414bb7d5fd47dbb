"""Signing in from a device, and resolving identities (R-AUTH-14 to R-AUTH-18, G-020, G-021)."""

from __future__ import annotations

import contextlib

from schemas.accounts import (
    AuthorizeDevice,
    AuthorizeTestDevice,
    DeviceAuthorized,
    DevicePageQuery,
    DeviceStarted,
    IdentityBody,
    IdentityResolved,
    PollDevice,
    ResolveIdentity,
    SignInAuthorizedBody,
    StartDevice,
    SyntheticSignInBody,
)
from service.accounts import person, show
from service.accounts import sign_in as commands
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.turns import SIGN_IN
from service.http.accounts import device_page
from service.http.edge.answer.page import HEADERS, HTML
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from statemachines.accounts.person import Identity, synthetic_identity, without_address
from statemachines.accounts.sign_in import UserCodeTaken

ANYONE = frozenset({PrincipalKind.ANONYMOUS})
INTERNAL = frozenset({PrincipalKind.INTERNAL})
TEST = frozenset({PrincipalKind.TEST})

CODE_ATTEMPTS = 5  # two live sign-ins with one of 20^8 codes are rare; five times in a row, something is broken


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/device",
    operation_id="start_device",
    summary="Begin a sign-in on a device without a browser",
    principals=ANYONE,
    responses={200: DeviceStarted},
    idempotency="optional",
    rate="device_start",
    flows=frozenset({"install", "provider"}),
    errors=("service_unavailable",),
    place=SIGN_IN,
)
async def start_device(call: Call[StartDevice, None]) -> Outcome:
    """Show a fresh user code; another one when a live sign-in has it already."""
    call.key = None  # All anonymous callers would share one scope of keys; a key would name another's sign-in.
    for _ in range(CODE_ATTEMPTS - 1):
        with contextlib.suppress(UserCodeTaken):
            return await _start(call)
    return await _start(call)


async def _start(call: Call[StartDevice, None]) -> Outcome:
    intent = commands.start(call.services.store.installation_salt, call.body.client_name)
    base_url = call.services.settings.base_url
    # Nothing of the answer is stored: it holds the device's secret.
    return await call.carry_out(intent, lambda codes: Answer(200, show.device_started(base_url, codes), pending=True))


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/device/poll",
    operation_id="poll_device",
    summary="Poll a sign-in and receive its key once",
    principals=ANYONE,
    responses={200: DeviceAuthorized},
    idempotency="optional",
    rate="device_poll",
    flows=frozenset({"install", "provider"}),
    errors=("authorization_pending", "slow_down", "access_denied", "expired_token"),
    place=SIGN_IN,
)
async def poll_device(call: Call[PollDevice, None]) -> Outcome:
    """Mint the key at the first poll after the authorisation; before it, watch the pace."""
    call.key = None  # As in start_device; the device code is what makes a poll its own repeat.
    intent = await commands.redeem(call.services.store, call.body.device_code)
    # Nothing is stored: a redeemed code is expired_token (G-008).
    return await call.carry_out(intent, lambda key: Answer(200, show.device_authorized(key), pending=True))


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/device/authorize",
    operation_id="authorize_device",
    summary="Authorize a user code as an identity",
    principals=INTERNAL,
    responses={200: SignInAuthorizedBody},
    idempotency="optional",
    rate="internal",
    errors=("not_found",),
)
async def authorize_device(call: Call[AuthorizeDevice, None]) -> Outcome:
    """Authorise a sign-in for the person of an identity."""
    salt = call.services.store.installation_salt
    intent = commands.authorize(salt, call.body.user_code, _identity(salt, call.body.identity))
    return await call.carry_out(intent, lambda known: Answer(200, show.sign_in_authorized(known)))


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/device/test-authorize",
    operation_id="test_authorize_device",
    summary="Authorize a user code as the synthetic identity of a test run",
    principals=TEST,
    responses={200: SyntheticSignInBody},
    idempotency="optional",
    rate="internal",
    errors=("not_found",),
)
async def test_authorize_device(call: Call[AuthorizeTestDevice, None]) -> Outcome:
    """Authorise a sign-in for the synthetic person of a test run; the ordinary poll mints the key."""
    test_run_id = call.body.test_run_id
    identity = synthetic_identity(test_run_id)
    intent = commands.authorize(call.services.store.installation_salt, call.body.user_code, identity)
    return await call.carry_out(
        intent, lambda known: Answer(200, show.synthetic_sign_in(test_run_id, identity.email, known))
    )


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/identity/resolve",
    operation_id="resolve_identity",
    summary="Find or create the person of an identity",
    principals=INTERNAL,
    responses={200: IdentityResolved},
    idempotency="optional",
    rate="internal",
)
async def resolve_identity(call: Call[ResolveIdentity, None]) -> Outcome:
    """Find or create the person of an identity."""
    salt = call.services.store.installation_salt
    intent = person.resolve(salt, _identity(salt, call.body.identity))
    return await call.carry_out(intent, lambda known: Answer(200, show.identity_resolved(known)))


@groups.AUTH.operation(
    method="GET",
    path="/device",
    operation_id="show_device_page",
    summary="Show how to authorize a user code, as a page",
    principals=ANYONE,
    responses={200: str},
    rate="none",
    extension=True,
    content_type=HTML,
    place=SIGN_IN,
)
async def show_device_page(call: Call[None, DevicePageQuery]) -> Outcome:
    """Show the code of the link and the commands that authorise it."""
    return Outcome(200, device_page.render(call.services.settings.base_url, call.query.user_code), HEADERS)


def _identity(salt: str, body: IdentityBody) -> Identity:
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
