"""A deploy: recorded once, by release machinery, and never changed (R-ING-03, R-ING-08, G-052).

`version`, `environment` and `branch` are the caller's, bounded at the edge; they are what verification binds to. The
free message is none of that and stays in a fact table.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.kernel.machine import CiRun, Event, Rejection, StateMachine, Stream, destination, transition_table


def stream(project_id: str, deploy_id: str) -> Stream:
    """History of a deploy."""
    return Stream(MACHINE, project_id, deploy_id)


class Status(Enum):
    """Where a deploy stands."""

    ABSENT = "absent"
    RECORDED = "recorded"


class DeployRecorded(Event, frozen=True):
    """A deploy really happened, says the caller.

    `trusted` is true only for a CI credential. `proof_marker_hash` is the hex SHA-256 of the marker that came along,
    whether or not it meant anything; `proof_session_id` names the open proof session it belongs to. `ci_run` is the run
    of a workflow that recorded it by an exchanged credential (G-171).
    """

    TOPIC = "deploy.recorded.v1"
    version: str
    environment: str
    sha: str | None
    branch: str | None
    source: str  # "dsn" or "ci"
    trusted: bool
    credential_id: str | None
    proof_marker_hash: str | None
    proof_session_id: str | None
    automation_run_id: str | None
    recorded_at: int
    ci_run: CiRun | UnsetType = UNSET


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [[DeployRecorded.TOPIC, Status.ABSENT, Status.RECORDED]],
)


class DeployState(msgspec.Struct, frozen=True):
    """What decisions about a deploy depend on: the record itself, None before it exists."""

    status: Status = Status.ABSENT
    record: DeployRecorded | None = None


class DeployConflict(Rejection):
    """The deploy is recorded already."""

    code = "idempotency_key_reused"


class RecordDeploy(msgspec.Struct, frozen=True):
    """The wish to record a deploy. A credential id makes it trusted; a DSN never is (G-052)."""

    version: str
    environment: str
    sha: str | None = None
    branch: str | None = None
    credential_id: str | None = None
    proof_marker_hash: str | None = None
    proof_session_id: str | None = None
    automation_run_id: str | None = None
    ci_run: CiRun | None = None


def decide_record(state: DeployState, command: RecordDeploy, now: int) -> list[Event]:
    """Record the deploy; one that is recorded stays as it is.

    A marker counts as matched only with a trusted source, whatever the caller looked up (R-ING-09).
    """
    if state.status is Status.RECORDED:
        return []
    trusted = command.credential_id is not None
    return [
        DeployRecorded(
            version=command.version,
            environment=command.environment,
            sha=command.sha,
            branch=command.branch,
            source="ci" if trusted else "dsn",
            trusted=trusted,
            credential_id=command.credential_id,
            proof_marker_hash=command.proof_marker_hash,
            proof_session_id=command.proof_session_id if trusted else None,
            automation_run_id=command.automation_run_id if trusted else None,
            recorded_at=now,
            ci_run=command.ci_run if trusted and command.ci_run is not None else UNSET,
        )
    ]


def evolve(state: DeployState, event: Event) -> DeployState:
    """Fold an event of a deploy."""
    status = Status[destination(TABLE, event, state.status)]
    return DeployState(status, event if isinstance(event, DeployRecorded) else state.record)


MACHINE = StateMachine("dep", TABLE, DeployState(), evolve, DeployConflict, DeployState)


# How releases compare by what they are called (G-199): `shop@1.4.0+77`, `1.4.0` and `v1.4.0` name one release. A
# release is `name@version+build`. Versions order within one kind only: numbers with dots and words of a prerelease
# (as semver has them), dates, and plain numbers. Two of unlike kinds, or of unlike names, do not compare. Then the
# order of deploys decides (G-144), which is the caller's to read.

Kind = Literal["numbers", "date", "number"]
Token = tuple[int, int, str]

PARTS = r"^(?:(.+)@)?(?:[vV](?=[0-9]))?([^+]*)"
"""Name and version of a release, for Python and PostgreSQL alike. The name ends at the last `@`."""

_PARTS = re.compile(PARTS, re.DOTALL)
_NUMBERS = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18}){1,5})(.*)", re.DOTALL)
_DATE = re.compile(r"((?:19[7-9]|20[0-9])[0-9][.-](?:0?[1-9]|1[0-2])(?:[.-][0-9]{1,18}){0,4})(?![0-9])(.*)", re.DOTALL)
_COMPACT_DATE = re.compile(
    r"((?:19[7-9]|20[0-9])[0-9])(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])([0-9]{0,6})((?:[._-][0-9]{1,18}){0,4})(.*)",
    re.DOTALL,
)
_NUMBER = re.compile(r"[0-9]{1,20}")
_TOKEN = re.compile(r"[0-9]+|[a-z]+|.", re.DOTALL)

LONGEST_NUMBER = 18
"""Digits of a number in a version."""
WORDS = {
    "a": "alpha",
    "b": "beta",
    "c": "rc",
    "cr": "rc",
    "m": "milestone",
    "preview": "pre",
} | {
    word: word
    for word in (
        "alpha", "beta", "canary", "dev", "edge", "experimental", "insider", "milestone", "next", "nightly", "pre",
        "rc", "snapshot", "test", "unstable",
    )
}  # fmt: skip
"""Words of a prerelease, by what they are written as."""


class Parts(NamedTuple):
    """A release in parts. `name` is empty where it has none; `version` is without a leading `v` and the build."""

    name: str
    version: str


class Order(NamedTuple):
    """Where a version stands among those of its kind.

    `final` is 0 for a prerelease, whose words follow. `mark` is what follows the numbers and is no prerelease: a
    commit, `hotfix`, `post1`. Nobody knows its place among versions of the same numbers.
    """

    kind: Kind
    numbers: tuple[int, ...]
    final: int = 1
    words: tuple[Token, ...] = ()
    mark: str = ""


def parts(release: str) -> Parts:
    """Split a release into name and version."""
    found = _PARTS.match(release)
    assert found is not None, "every part may be empty"
    return Parts(found[1] or "", found[2])


def order_of(version: str) -> Order | None:
    """Read a version of `parts`; None for a text that has no order."""
    if found := _COMPACT_DATE.fullmatch(version):
        *day, time, counters, rest = found.groups()
        numbers = [*map(int, day), *([int(time)] if time else []), *map(int, re.findall(r"[0-9]+", counters))]
        return _order("date", numbers, rest)
    if _NUMBER.fullmatch(version):
        return Order("number", (int(version),))
    if found := _DATE.fullmatch(version):
        return _order("date", list(map(int, re.split(r"[.-]", found[1]))), found[2])
    if found := _NUMBERS.fullmatch(version):
        return _order("numbers", list(map(int, found[1].split("."))), found[2])
    return None


def _order(kind: Kind, numbers: list[int], rest: str) -> Order:
    """Place a version by its numbers, of which zeros at the end say nothing, and by the text behind them."""
    while numbers and numbers[-1] == 0:
        numbers.pop()
    if not rest:
        return Order(kind, tuple(numbers))
    words = _prerelease(rest.lower())
    return Order(kind, tuple(numbers), mark=rest) if words is None else Order(kind, tuple(numbers), 0, words)


def _prerelease(rest: str) -> tuple[Token, ...] | None:
    """Read the words and numbers of a prerelease: a number is below a word; None for any other text."""
    found: list[Token] = []
    separated = False
    for token in _TOKEN.findall(rest):
        if token in {"-", ".", "_", "~"}:
            if separated:
                return None
            separated = True
            continue
        if token.isascii() and token.isdigit() and len(token) <= LONGEST_NUMBER:
            found.append((0, int(token), ""))
        elif token in WORDS:
            found.append((1, 0, WORDS[token]))
        else:
            return None
        separated = False
    return None if separated else tuple(found)


def names_agree(a: Parts, b: Parts) -> bool:
    """Tell whether two releases can be of one package: a release without a name can be of any."""
    return not a.name or not b.name or a.name == b.name


def compare(a: str, b: str) -> int | None:
    """Compare two releases by their versions: below zero where `a` is older, zero where they are one version.

    None where they do not compare.
    """
    of_a, of_b = parts(a), parts(b)
    if not names_agree(of_a, of_b):
        return None
    if of_a.version == of_b.version:
        return 0
    first, second = order_of(of_a.version), order_of(of_b.version)
    if first is None or second is None or first.kind != second.kind:
        return None
    if first.numbers == second.numbers and (first.mark or second.mark):
        return 0 if first.mark == second.mark else None
    return (first[1:4] > second[1:4]) - (first[1:4] < second[1:4])


def is_older(release: str, than: str) -> bool:
    """Tell whether a release is an older version than another one."""
    order = compare(release, than)
    return order is not None and order < 0


class Versions:
    """Versions of deploys, to be asked for a release in any of its forms."""

    def __init__(self, versions: Iterable[str]) -> None:
        self._names: dict[Order | str, set[str]] = {}
        for found in map(parts, versions):
            self._names.setdefault(_identity(found), set()).add(found.name)

    def __contains__(self, release: str) -> bool:
        asked = parts(release)
        names = self._names.get(_identity(asked), set())
        return bool(names) if not asked.name else "" in names or asked.name in names


def _identity(release: Parts) -> Order | str:
    """What the versions of one release have in common, in any of its forms."""
    return order_of(release.version) or release.version


def recurs(release: str | None, deployed: str, later: Versions) -> bool:
    """Tell whether an error of `release` says that the repair deployed as `deployed` does not hold (G-111).

    It does when it names no release, this one in any of its forms, or a later one. `later` are the Versions
    deployed to the environment after it: they decide where two do not compare.
    """
    if release is None:
        return True
    order = compare(release, deployed)
    return release in later if order is None else order >= 0
