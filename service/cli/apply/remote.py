"""The saved contract of a project, over HTTP alone. The key leaves this process in one header and nowhere else."""

from __future__ import annotations

import ipaddress
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import msgspec

from schemas.contracts.contract import AutomationContract, ContractValidation

T = TypeVar("T")

TIMEOUT_SECONDS = 30
OK = (200, 201)
JSON = "application/json"
ABSENT = "automation_contract_not_found"
MOVED = ("precondition_failed", "if_match_required")
"""Codes of a save from a stale read: another contract is there, or one where none was."""


NO_ANSWER = ""


class RefusalBody(msgspec.Struct):
    """The part of a refusal for people and this command."""

    code: str
    message: str
    next_action: str = ""
    details: dict[str, Any] = {}


class RefusalEnvelope(msgspec.Struct):
    """A refusal."""

    error: RefusalBody


class BadAddress(Exception):
    """An address to which no key is sent."""


class ApplyRefused(Exception):
    """The service refused a request, or did not answer it."""

    def __init__(self, message: str, code: str = NO_ANSWER, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.details = code, details or {}


def check_address(url: str) -> str:
    """Return an address of the service. Raises BadAddress."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise BadAddress(f"{url!r} is no address.") from error
    if parts.scheme not in {"http", "https"} or not host or parts.username is not None or parts.query or parts.fragment:
        raise BadAddress("An address is https://HOST, without user, query and fragment.")
    if parts.scheme == "http" and not _is_loopback(host):
        raise BadAddress(f"The key would travel in the clear to {host}. Use https.")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Remote:
    """A project's contract. Redirects are not followed, so the key stays with its address."""

    def __init__(self, url: str, key: str, project_id: str) -> None:
        headers = {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
            "user-agent": "service-apply/1",
        }
        # A proxy sees no key inside of TLS. Plain http goes to this machine directly.
        through_proxy = url.startswith("https:")
        self._client = httpx2.Client(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=through_proxy)
        self._key = key
        self._path = f"/v1/projects/{quote(project_id, safe='')}/automation-contract"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def read(self) -> AutomationContract | None:
        """Read the saved contract. None if there is none."""
        try:
            return self._ask(AutomationContract, "GET", self._path)
        except ApplyRefused as refusal:
            if refusal.code == ABSENT:
                return None
            raise

    def validate(self, text: bytes) -> ContractValidation:
        """Have a contract validated."""
        return self._ask(ContractValidation, "POST", f"{self._path}/validate", text)

    def save(self, text: bytes, etag: str | None) -> AutomationContract:
        """Save a contract in the place of the one with this tag, or as the first."""
        return self._ask(
            AutomationContract, "PUT", self._path, text, headers={} if etag is None else {"if-match": etag}
        )

    def _ask(self, expected: type[T], method: str, path: str, text: bytes | None = None, **more: Any) -> T:
        try:
            answer = self._client.request(method, path, content=text, **more)
        except httpx2.HTTPError as lost:
            raise self._refused(f"{method} {path} got no answer: {lost or type(lost).__name__}.") from None
        try:
            if answer.status_code in OK:
                return msgspec.json.decode(answer.content, type=expected)
            problem = msgspec.json.decode(answer.content, type=RefusalEnvelope).error
        except msgspec.MsgspecError:
            raise self._refused(
                f"{method} {path} answered {answer.status_code} without the form of the service. Is this its address?"
            ) from None
        told = f"{answer.status_code} {problem.code}: {problem.message} {problem.next_action}"
        raise self._refused(told, problem.code, problem.details)

    def _refused(self, message: str, code: str = NO_ANSWER, details: dict[str, Any] | None = None) -> ApplyRefused:
        return ApplyRefused(message.replace(self._key, "…"), code, details)
