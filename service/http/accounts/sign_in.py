"""Signing in from a device, and resolving identities (R-AUTH-14 to R-AUTH-18, G-020, G-021)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal

import msgspec

from projections.accounts.sign_in import PROJECTION as SIGN_INS
from projections.accounts.sign_in import SIGN_IN_POLLS, PollRow
from schemas.accounts.sign_in import (
    AuthorizeDevice,
    AuthorizeTestDevice,
    DeviceAuthorized,
    DevicePageQuery,
    DeviceStarted,
    IdentityResolved,
    PollDevice,
    ResolveIdentity,
    SignInAuthorizedBody,
    StartDevice,
    SyntheticSignInBody,
)
from service.accounts.units import (
    authorize,
    mint_key,
    register,
)
from service.auth.principals import PrincipalKind
from service.auth.secrets import SecretKind, digest, make, make_user_code
from service.eventstore.commands import Answer, Lookup, Outcome, Unit
from service.http.accounts import device_page
from service.http.edge import groups
from service.http.edge.call import Call
from service.ids import new_id
from statemachines.accounts import key as keys
from statemachines.accounts import person as people
from statemachines.accounts import sign_in as sign_ins
from statemachines.accounts.pace import INTERVAL, Pace, next_pace
from statemachines.accounts.person import Identity, person_id, synthetic_identity
from statemachines.accounts.sign_in import (
    LIFETIME,
    AccessDenied,
    AuthorizationPending,
    DeviceCodeOver,
    SignInStarted,
    SlowDown,
    UserCodeTaken,
    decide_redeem,
    decide_start,
)

ANYONE = frozenset({PrincipalKind.ANONYMOUS})
INTERNAL = frozenset({PrincipalKind.INTERNAL})
TEST = frozenset({PrincipalKind.TEST})

CODE_ATTEMPTS = 5  # two live sign-ins with one of 20^8 codes are rare; five times in a row, something is broken


class StillPending(msgspec.Struct, frozen=True):
    """What the unit of a poll says while there is no key yet; the handler turns it into the refusal."""

    code: Literal["authorization_pending", "slow_down"]
    interval: int


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/device",
    operation_id="start_device",
    summary="Begin a sign-in on a device without a browser",
    principals=ANYONE,
    responses={200: DeviceStarted},
    idempotency="optional",
    rate="device_start",
    flows=frozenset({"install"}),
    errors=("service_unavailable",),
)
async def start_device(call: Call[StartDevice, None]) -> Outcome:
    """Show a fresh user code; another one when a live sign-in has it already."""
    call.key = None  # All anonymous callers would share one scope of keys; a key would name another's sign-in.
    device = make(SecretKind.DEVICE)
    base_url = call.services.settings.base_url
    for _ in range(CODE_ATTEMPTS - 1):
        try:
            return await _start(call, make_user_code(), device.text, base_url)
        except UserCodeTaken:
            continue
    return await _start(call, make_user_code(), device.text, base_url)


async def _start(call: Call[StartDevice, None], user_code: str, device_code: str, base_url: str) -> Outcome:
    stream = sign_ins.stream(sign_ins.sign_in_id(call.services.store.installation_salt, user_code))
    device_code_hash = digest(device_code)

    def start(unit: Unit) -> Answer:
        events = decide_start(unit.state(stream), device_code_hash, call.body.client_name, unit.now)
        assert all(isinstance(event, SignInStarted) for event in events)
        unit.append(stream, events)
        body = DeviceStarted(
            device_code=device_code,
            user_code=user_code,
            verification_uri=f"{base_url}/device",
            verification_uri_complete=f"{base_url}/device?user_code={user_code}",
            expires_in=LIFETIME,
            interval=INTERVAL,
            next_action="Show the user code and the verification address, then poll with the device code.",
        )
        # Nothing of the answer is stored: it holds the device's secret.
        return Answer(200, body, pending=True)

    return await call.execute(start, streams=[stream])


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/device/poll",
    operation_id="poll_device",
    summary="Ask whether a sign-in has been authorised; takes the key once",
    principals=ANYONE,
    responses={200: DeviceAuthorized},
    idempotency="optional",
    rate="device_poll",
    flows=frozenset({"install"}),
    errors=("authorization_pending", "slow_down", "access_denied", "expired_token"),
)
async def poll_device(call: Call[PollDevice, None]) -> Outcome:
    """Mint the key at the first poll after the authorisation; before it, watch the pace."""
    call.key = None  # As in start_device; the device code is what makes a poll its own repeat.
    code_hash = digest(call.body.device_code)
    rows = await call.services.store.find(SIGN_INS.table, "t.device_code_hash = %s", code_hash, limit=1)
    if not rows:
        raise DeviceCodeOver("The device code is over or was used.", next_action="Start the sign-in again.")
    sign_in = sign_ins.stream(rows[0].id)
    # Whose key it becomes is known here, or it is still pending: an authorisation never changes its person.
    user_id = rows[0].user_id
    secret = make(SecretKind.KEY)
    key = keys.stream(user_id or "", new_id("key"))
    person = people.stream(user_id or "")

    def poll(unit: Unit) -> Answer:
        events = decide_redeem(unit.state(sign_in), code_hash, key.id, unit.now)
        if not events or user_id is None:
            return Answer(HTTPStatus.BAD_REQUEST, _pace(unit), pending=True)
        if unit.state(person).status is not people.Status.ACTIVE:
            raise AccessDenied("The account is being deleted.")
        state = unit.append(sign_in, events)
        mint_key(unit, key, secret, sign_in.id)
        body = DeviceAuthorized(
            user_id=user_id,
            api_key=secret.text,
            key_prefix=secret.prefix,
            is_new=state.is_new,
            next_action="Keep the key in SERVICE_API_KEY; it is not shown again. Then list or create a project.",
        )
        return Answer(200, body, pending=True)  # Nothing is stored: a redeemed code is expired_token (G-008).

    def _pace(unit: Unit) -> StillPending:
        row = unit.row(SIGN_IN_POLLS, sign_in.project_id, sign_in.id)
        known = row is not None and row.device_code_hash == code_hash
        pace, early = next_pace(Pace(row.last_polled_at, row.interval_seconds) if row and known else None, unit.now)
        unit.put(
            sign_in,
            SIGN_IN_POLLS,
            PollRow(
                project_id=sign_in.project_id,
                id=sign_in.id,
                device_code_hash=code_hash,
                last_polled_at=pace.last_polled_at,
                interval_seconds=pace.interval,
            ),
        )
        return StillPending("slow_down" if early else "authorization_pending", pace.interval)

    outcome = await call.execute(
        poll,
        streams=[sign_in] if user_id is None else [sign_in, key],
        reads=[] if user_id is None else [person],
        lookups=[Lookup(SIGN_IN_POLLS, sign_in.project_id, sign_in.id)],
    )
    if outcome.status == HTTPStatus.OK:
        return outcome
    still = msgspec.json.decode(outcome.body, type=StillPending)
    if still.code == "slow_down":
        raise SlowDown(
            "Polling is faster than the interval allows.",
            next_action="Wait for the seconds in details.interval between polls.",
            interval=still.interval,
        )
    raise AuthorizationPending(
        "The code has not been authorised yet.",
        next_action="Poll again after the seconds in details.interval.",
        interval=still.interval,
    )


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/device/authorize",
    operation_id="authorize_device",
    summary="Let an identity stand behind a user code",
    principals=INTERNAL,
    responses={200: SignInAuthorizedBody},
    idempotency="optional",
    rate="internal",
    errors=("not_found",),
)
async def authorize_device(call: Call[AuthorizeDevice, None]) -> Outcome:
    """Authorise a sign-in for the person of an identity."""
    salt = call.services.store.installation_salt
    identity = _identity(call.body)
    code = sign_ins.stream(sign_ins.sign_in_id(salt, call.body.user_code))
    person = people.stream(person_id(salt, identity))

    def decide(unit: Unit) -> Answer:
        authorize(unit, code, person, identity)
        return Answer(200, SignInAuthorizedBody(user_id=person.id))

    return await call.execute(decide, streams=[code, person])


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/device/test-authorize",
    operation_id="test_authorize_device",
    summary="Let the synthetic identity of a test run stand behind a user code",
    principals=TEST,
    responses={200: SyntheticSignInBody},
    idempotency="optional",
    rate="internal",
    errors=("not_found",),
)
async def test_authorize_device(call: Call[AuthorizeTestDevice, None]) -> Outcome:
    """Authorise a sign-in for the synthetic person of a test run; the ordinary poll mints the key."""
    salt = call.services.store.installation_salt
    identity = synthetic_identity(call.body.test_run_id)
    code = sign_ins.stream(sign_ins.sign_in_id(salt, call.body.user_code))
    person = people.stream(person_id(salt, identity))

    def decide(unit: Unit) -> Answer:
        is_new = authorize(unit, code, person, identity)
        body = SyntheticSignInBody(
            user_id=person.id,
            is_new=is_new,
            test_run_id=call.body.test_run_id,
            email=identity.email,
            next_action="Poll with the device code to receive the key.",
        )
        return Answer(200, body)

    return await call.execute(decide, streams=[code, person])


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/identity/resolve",
    operation_id="resolve_identity",
    summary="Find or make the person of an identity",
    principals=INTERNAL,
    responses={200: IdentityResolved},
    idempotency="optional",
    rate="internal",
)
async def resolve_identity(call: Call[ResolveIdentity, None]) -> Outcome:
    """Find or make the person of an identity."""
    identity = _identity(call.body)
    person = people.stream(person_id(call.services.store.installation_salt, identity))

    def decide(unit: Unit) -> Answer:
        is_new = register(unit, person, identity)
        return Answer(200, IdentityResolved(user_id=person.id, is_new=is_new))

    return await call.execute(decide, streams=[person])


@groups.AUTH.operation(
    method="GET",
    path="/device",
    operation_id="show_device_page",
    summary="How to authorise a user code, as a page",
    principals=ANYONE,
    responses={200: str},
    rate="none",
    extension=True,
    content_type="text/html; charset=utf-8",
)
async def show_device_page(call: Call[None, DevicePageQuery]) -> Outcome:
    """Show the code of the link and the commands that authorise it."""
    return Outcome(200, device_page.render(call.services.settings.base_url, call.query.user_code), device_page.HEADERS)


def _identity(body: AuthorizeDevice | ResolveIdentity) -> Identity:
    return Identity(**msgspec.structs.asdict(body.identity))


ENDPOINTS = [
    start_device,
    poll_device,
    authorize_device,
    test_authorize_device,
    resolve_identity,
    show_device_page,
]
