"""A contract as a file, its difference from the saved one, and the requests that save it."""

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import msgspec

from schemas.cases.foreign import EventsImported
from schemas.contracts.contract import MAX_CONTRACT_BYTES, AutomationContract, ContractAutomation, ContractValidation
from schemas.credentials import AddCiBinding, CiBindingChanged, CiBindingList

# The file of a contract: its text, its document, and the line of each member.

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


class BadFile(Exception):
    """A file without a contract. The message says where and why."""


class ContractFile(NamedTuple):
    """A contract as it was written. `lines` has the line of each member by its path."""

    text: bytes
    document: dict[str, Any]
    lines: dict[str, int]

    def line_of(self, path: str) -> int:
        """The line of a member. A missing one has the line of its nearest parent."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, 1)


def read(content: bytes) -> ContractFile:
    """Read a file. Raises BadFile."""
    if len(content) > MAX_CONTRACT_BYTES:
        raise BadFile(f": has more than {MAX_CONTRACT_BYTES} bytes")
    try:
        text = content.decode()
        document = json.loads(text, object_pairs_hook=_members, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadFile(f":{line}: is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise BadFile(f":{error.lineno}:{error.colno}: is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise BadFile(": is nested too deeply") from error
    if not isinstance(document, dict):
        raise BadFile(": must be an object, with `policy_version` and `automations`")
    return ContractFile(content, document, lines_of(text))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise BadFile(f": names {json.dumps(name)} twice in one object")
        members[name] = value
    return members


def _refuse_constant(name: str) -> None:
    raise BadFile(f": has {name}, which is no number in JSON")


class _Level:
    """An open object or array, and its member at hand."""

    def __init__(self, path: str, *, is_array: bool) -> None:
        self.path, self.is_array = path, is_array
        self.index, self.name, self.at_name = 0, "", not is_array

    @property
    def place(self) -> str:
        """Path of the member at hand."""
        if self.is_array:
            return f"{self.path}[{self.index}]"
        return f"{self.path}.{self.name}" if self.path else self.name


def lines_of(text: str) -> dict[str, int]:
    """The line of each member of a valid JSON text, by its path."""
    lines: dict[str, int] = {}
    levels: list[_Level] = []
    line, end = 1, 0
    for found in _PART.finditer(text):
        line += text.count("\n", end, found.start())
        part, end = found[0], found.start()
        here = levels[-1] if levels else None
        if here and here.at_name and part[0] == '"':
            here.name, here.at_name = json.loads(part), False
            lines[here.place] = line
        elif part == "," and here:
            here.index, here.at_name = here.index + 1, not here.is_array
        elif part in "]}":
            levels.pop()
        elif part not in ":,":
            place = here.place if here else ""
            lines.setdefault(place, line)
            if part in "[{":
                levels.append(_Level(place, is_array=part == "["))
    return lines


# The difference of two contracts, as lines for people: stable, and with the name of each changed member.

_ABSENT = object()


def difference(saved: AutomationContract | None, document: dict[str, Any]) -> list[str]:
    """Compare the automations of the saved contract with those of a valid document, each by its id."""
    new = {entry["bindings"]["automation_id"]: entry for entry in document["automations"]}
    return _compare(_entries(saved), new)


def state_difference(before: AutomationContract | None, after: AutomationContract | None) -> list[str]:
    """Compare two reads of the saved contract: revision, state and automations."""
    old, new = _state(before), _state(after)
    lines = [f"~ {name}: {old[name]} → {new[name]}" for name in new if old[name] != new[name]]
    return lines + _compare(_entries(before), _entries(after))


def _compare(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for automation_id in sorted({*old, *new}):
        if automation_id not in old:
            lines.append(f"+ automation {automation_id}: {_playbook(new[automation_id])}")
        elif automation_id not in new:
            lines.append(f"- automation {automation_id}: {_playbook(old[automation_id])}")
        elif changed := list(changes(old[automation_id], new[automation_id])):
            lines += [f"~ automation {automation_id}", *(f"  {line}" for line in changed)]
    before, after = [name for name in old if name in new], [name for name in new if name in old]
    if before != after:
        lines.append(f"~ order: {', '.join(before)} → {', '.join(after)}")
    return lines


def changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """A line for each member with another value. Arrays of one length are compared by place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            inner = f"{path}.{name}" if path else name
            yield from changes(before.get(name, _ABSENT), after.get(name, _ABSENT), inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, f"{path}[{index}]")
    elif before is _ABSENT:
        yield f"+ {path}: {_shown(after)}"
    elif after is _ABSENT:
        yield f"- {path}: {_shown(before)}"
    elif not _same(before, after):
        yield f"~ {path}: {_shown(before)} → {_shown(after)}"


def _same(before: Any, after: Any) -> bool:
    """Whether two values are one in canonical JSON: 1 and 1.0 are, 1 and true are not."""
    return before == after and isinstance(before, bool) == isinstance(after, bool)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _entries(contract: AutomationContract | None) -> dict[str, dict[str, Any]]:
    """The saved automations by id, each with the members of a file alone."""
    return {} if contract is None else {entry.automation_id: _entry(entry) for entry in contract.automations}


def _entry(saved: ContractAutomation) -> dict[str, Any]:
    return {
        "playbook": msgspec.to_builtins(saved.playbook),
        "bindings": saved.bindings,
        "readiness_assertions": saved.readiness_assertions,
        "policy": saved.policy,
    }


def _playbook(entry: dict[str, Any]) -> str:
    return f"{entry['playbook']['id']} {entry['playbook']['version']}"


def _state(contract: AutomationContract | None) -> dict[str, str]:
    if contract is None:
        return {"revision": "none", "enabled": "none", "paused": "no", "changed by": "nobody"}
    return {
        "revision": str(contract.revision),
        "enabled": ", ".join(enabled_of(contract)) or "none",
        "paused": "yes" if contract.paused else "no",
        "changed by": contract.updated_by,
    }


def enabled_of(contract: AutomationContract | None) -> list[str]:
    """Ids of the enabled automations."""
    return [] if contract is None else [entry.automation_id for entry in contract.automations if entry.enabled]


# The saved contract of a project, over HTTP alone. The key leaves this process in one header and nowhere else.

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
        project = f"/v1/projects/{quote(project_id, safe='')}"
        self._path, self._bindings = f"{project}/automation-contract", f"{project}/ci-bindings"
        self._imports = f"{project}/event-imports"

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

    def bindings(self) -> CiBindingList:
        """Read the CI bindings in force."""
        return self._ask(CiBindingList, "GET", self._bindings)

    def add_binding(self, binding: AddCiBinding, etag: str) -> CiBindingChanged:
        """Add a binding to those with this tag."""
        text = msgspec.json.encode(binding)
        return self._ask(CiBindingChanged, "POST", self._bindings, text, headers={"if-match": etag})

    def remove_binding(self, binding_id: str, etag: str) -> CiBindingChanged:
        """Remove a binding from those with this tag."""
        path = f"{self._bindings}/{quote(binding_id, safe='')}"
        return self._ask(CiBindingChanged, "DELETE", path, headers={"if-match": etag})

    def import_events(self, body: Mapping[str, Any]) -> EventsImported:
        """Import exported events."""
        return self._ask(EventsImported, "POST", self._imports, msgspec.json.encode(body))

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
