"""The provider's interface for the operator: teams of the organization, found, created and set up (G-165).

Every request carries the operator's own key, and goes to the address in the settings alone. The paths and members are
those of the provider's published OpenAPI document.
"""

import asyncio
import re
from decimal import Decimal, InvalidOperation
from http import HTTPStatus
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from service.analytics.connecting.http import (
    Content,
    HttpAnswer,
    ProviderClient,
    Throttled,
    cause_of,
    document,
    failed,
    failure,
    parse,
)
from service.settings import Settings
from statemachines.kernel.machine import Cause, ReadFailed
from statemachines.provider import BlockReason, FoundTeam, ReplaySettings, external_name

T = TypeVar("T", bound=msgspec.Struct)

EXCHANGE_SECONDS = 8.0
"""For one request."""
PROVISION_SECONDS = 24.0
"""For all requests of one attempt to provision."""
CONFIRM_SECONDS = 1.0
"""For what a status asks (G-094)."""
PAGE = 100
MOST_PAGES = 20
"""Pages that a look-up goes through. A larger answer proves nothing of what is not in it."""
MAX_BYTES = 4 * 1024 * 1024

_PUBLIC_TOKEN = re.compile(r"phc_[A-Za-z0-9_-]{8,200}")
"""A public project token. Personal keys and secret tokens have other prefixes."""


class _Listed(msgspec.Struct):
    id: int
    name: str
    api_token: str


class _Teams(msgspec.Struct):
    results: list[_Listed]
    next: str | None = None


class _Masking(msgspec.Struct, rename="camel"):
    mask_all_inputs: bool = True


class _Team(msgspec.Struct):
    """A team with its settings of replay. Unset ones mean all sessions, with inputs masked."""

    id: int
    api_token: str
    session_recording_opt_in: bool = False
    session_recording_sample_rate: str | float | None = None
    session_recording_masking_config: _Masking | None = None


class Created(NamedTuple):
    """The outcome of a creation: the team, or a failure. `doubtful`: the provider may have created it all the same."""

    outcome: FoundTeam | ReadFailed
    doubtful: bool = False


class OperatorProvider:
    """The operator's account at the provider, for one process."""

    def __init__(self, settings: Settings, client: ProviderClient) -> None:
        self._client = client
        self._key = settings.provider_api_key
        self._organization = settings.provider_organization
        self.host = settings.provider_api_url or settings.provider_us_url

    @property
    def configured(self) -> bool:
        """Whether the operator has given credentials."""
        return self._key is not None and self._organization is not None

    async def find(self, name: str, account: str, until: float) -> FoundTeam | ReadFailed | None:
        """Find the team of a name. Of several the first one made, None when there is none.

        `until` is a time of the event loop, by which all of it ends.
        """
        found: list[_Listed] = []
        offset = 0
        for _ in range(MOST_PAGES):
            query = urlencode({"search": name, "limit": PAGE, "offset": offset})
            page = await self._read("GET", f"{self._projects}?{query}", None, _Teams, account, until)
            if isinstance(page, ReadFailed):
                return page
            found += [team for team in page.results if team.name == name]
            offset += len(page.results)
            if page.next is None:
                first = min(found, key=lambda team: team.id, default=None)
                return None if first is None else self._team(first.id, first.api_token)
        return failure("too_much")

    async def create(self, name: str, account: str, until: float) -> Created:
        """Create a team. An answer that was lost leaves it in doubt, and nobody may create another at once."""
        if until - asyncio.get_running_loop().time() < EXCHANGE_SECONDS:
            return Created(failure("timeout"))
        answer = await self._send("POST", self._projects, document({"name": name}), account, until)
        if isinstance(answer, ReadFailed):
            return Created(answer, doubtful=True)
        if answer.status not in {HTTPStatus.OK, HTTPStatus.CREATED}:
            return Created(_failed(answer), doubtful=answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR)
        made = parse(answer.body, _Listed)
        if isinstance(made, ReadFailed):
            return Created(made, doubtful=True)
        team = self._team(made.id, made.api_token)
        return Created(team, doubtful=isinstance(team, ReadFailed))

    async def configure(self, team_id: int, settings: ReplaySettings, account: str) -> ReadFailed | None:
        """Send a team's settings of replay."""
        until = asyncio.get_running_loop().time() + EXCHANGE_SECONDS
        changed = document(
            {
                "session_recording_opt_in": settings.enabled,
                "session_recording_sample_rate": settings.sample_rate,
                "session_recording_masking_config": {"maskAllInputs": settings.mask_all_inputs},
            }
        )
        told = await self._read("PATCH", f"{self._projects}{team_id}/", changed, _Team, account, until)
        return told if isinstance(told, ReadFailed) else None

    async def settings_of(self, team_id: int, account: str) -> ReplaySettings | ReadFailed:
        """Read a team's settings of replay, within CONFIRM_SECONDS."""
        until = asyncio.get_running_loop().time() + CONFIRM_SECONDS
        team = await self._read("GET", f"{self._projects}{team_id}/", None, _Team, account, until)
        if isinstance(team, ReadFailed):
            return team
        rate, masking = team.session_recording_sample_rate, team.session_recording_masking_config
        try:
            exact = Decimal(1) if rate is None else Decimal(str(rate)).quantize(Decimal("0.01"))
        except InvalidOperation:
            return failure("malformed")
        return ReplaySettings(team.session_recording_opt_in, f"{exact:.2f}", masking is None or masking.mask_all_inputs)

    async def read(
        self,
        method: str,
        path: str,
        content: Content | None,
        shape: type[T],
        account: str,
        *,
        seconds: float = EXCHANGE_SECONDS,
    ) -> T | ReadFailed:
        """Carry out a request with the operator's key, and read the answer in the agreed form."""
        until = asyncio.get_running_loop().time() + seconds
        return await self._read(method, path, content, shape, account, until)

    @property
    def _projects(self) -> str:
        return f"/api/organizations/{self._organization}/projects/"

    def _team(self, team_id: int, token: str) -> FoundTeam | ReadFailed:
        """A team, whose token everybody may see. Any other token is nothing to keep or to show."""
        return FoundTeam(team_id, token, self.host) if _PUBLIC_TOKEN.fullmatch(token) else failure("malformed")

    async def _read(
        self, method: str, path: str, content: Content | None, shape: type[T], account: str, until: float
    ) -> T | ReadFailed:
        answer = await self._send(method, path, content, account, until)
        if isinstance(answer, ReadFailed):
            return answer
        if answer.status != HTTPStatus.OK:
            return _failed(answer)
        read: T | ReadFailed = parse(answer.body, shape)
        return read

    async def _send(
        self, method: str, path: str, content: Content | None, account: str, until: float
    ) -> HttpAnswer | ReadFailed:
        if not self.configured:
            return failure("unconfigured")
        left = until - asyncio.get_running_loop().time()
        return await self._client.call(
            method,
            self.host,
            path,
            content,
            account=account,
            max_bytes=MAX_BYTES,
            token=self._key,
            seconds=max(0.001, min(EXCHANGE_SECONDS, left)),
        )


def _failed(answer: HttpAnswer) -> ReadFailed:
    """The failed read for an answer that is no success: Throttled after a 429 or 5xx (G-205)."""
    waits = answer.status == HTTPStatus.TOO_MANY_REQUESTS or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return failed(answer) if waits else failure(cause_of(answer.status))


# One attempt to provision: the requests between its intent and its outcome (G-165).

_REASONS: dict[Cause, BlockReason] = {
    "unconfigured": "unconfigured",
    "unauthorized": "refused",
    "refused": "refused",
    "timeout": "timeout",
    "malformed": "malformed",
    "too_much": "malformed",
}


class NoTeam(NamedTuple):
    """An attempt came to nothing. `wait` are the seconds that the provider asks for, 0 without any.

    `doubtful`: the provider may have created a team all the same.
    """

    reason: BlockReason
    doubtful: bool = False
    wait: int = 0


async def provide_team(
    operator: OperatorProvider, project_id: str, account: str, *, may_create: bool
) -> FoundTeam | NoTeam:
    """Find the project's team by its name, else create it. It takes PROVISION_SECONDS at most.

    With `may_create` false it is only looked for: a creation from before may not show yet.
    """
    name = external_name(project_id)
    until = asyncio.get_running_loop().time() + PROVISION_SECONDS
    found = await operator.find(name, account, until)
    if isinstance(found, FoundTeam):
        return found
    if isinstance(found, ReadFailed):
        return _none(found)
    if not may_create:
        return NoTeam("timeout")
    made = await operator.create(name, account, until)
    return made.outcome if isinstance(made.outcome, FoundTeam) else _none(made.outcome, doubtful=made.doubtful)


def _none(failed: ReadFailed, *, doubtful: bool = False) -> NoTeam:
    wait = failed.retry_after if isinstance(failed, Throttled) else 0
    return NoTeam(_REASONS.get(failed.cause, "unreachable"), doubtful, wait)
