"""Wire contracts of the device flow and of identities (R-AUTH-14 to R-AUTH-18, G-020, G-021)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns

UserId = Annotated[str, Meta(description="The id of a person.")]
UserCode = Annotated[str, Meta(min_length=1, max_length=40, description="XXXX-XXXX. Case and dash are ignored.")]


class StartDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Begin a sign-in on a device without a browser."""

    client_name: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


class DeviceStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The codes of a sign-in. The device code is a secret of the device. Durations are in seconds."""

    device_code: Annotated[str, Meta(min_length=40)]
    user_code: Annotated[str, Meta(pattern="^[A-Z]{4}-[A-Z]{4}$")]
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int
    next_action: str


class PollDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Poll a sign-in."""

    device_code: Annotated[str, Meta(min_length=1, max_length=200)]


class DeviceAuthorized(msgspec.Struct, frozen=True, kw_only=True):
    """The key of an authorized sign-in, shown once."""

    status: Literal["authorized"] = "authorized"
    user_id: UserId
    api_key: Annotated[str, Meta(pattern="^service_sk_[0-9A-Za-z]{43}$")]
    key_prefix: str
    env_var: Literal["SERVICE_API_KEY"] = "SERVICE_API_KEY"
    is_new: bool
    next_action: str


class IdentityBody(msgspec.Struct, frozen=True):
    """An identity as its provider describes it. Other members are ignored (G-003)."""

    provider: Annotated[str, Meta(min_length=1, max_length=50)]
    subject: Annotated[str, Meta(min_length=1, max_length=200)]
    email: Annotated[str, Meta(min_length=3, max_length=320)] | None = None
    email_verified: bool = False
    name: Annotated[str, Meta(max_length=200)] | None = None


class AuthorizeDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Authorize the sign-in of a user code as this identity."""

    user_code: UserCode
    identity: IdentityBody


class SignInAuthorizedBody(msgspec.Struct, frozen=True, kw_only=True):
    """The person of the authorized sign-in."""

    status: Literal["ok"] = "ok"
    user_id: UserId


class AuthorizeTestDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Authorize the sign-in of a user code as the synthetic identity of a test run."""

    user_code: UserCode
    test_run_id: Annotated[str, Meta(pattern=patterns.SHORT_TOKEN)]


class SyntheticSignInBody(msgspec.Struct, frozen=True, kw_only=True):
    """The synthetic person of the authorized sign-in."""

    status: Literal["ok"] = "ok"
    user_id: UserId
    is_new: bool
    test_run_id: str
    email: str
    next_action: str


class ResolveIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Find or create the person of an identity."""

    identity: IdentityBody


class IdentityResolved(msgspec.Struct, frozen=True, kw_only=True):
    """The person of an identity, and whether this call made the account."""

    user_id: UserId
    is_new: bool


class DevicePageQuery(msgspec.Struct, frozen=True):
    """The code that the page shows, when the link contains one."""

    user_code: Annotated[str, Meta(max_length=40)] | None = None
