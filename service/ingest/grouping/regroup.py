"""What a version of the grouping would make of stored errors: a look that changes nothing (G-174).

Errors are seen as they are stored: secrets are hidden by now, and minified frames count as they came.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import psycopg

from service.ingest.grouping.fingerprint import GROUPINGS, EventNames, fingerprint_of, gather, group
from service.packing import unpack
from service.sql import load_query

PAGE = 500
MOST_ERRORS = 200_000
MOST_GROUPS = 20_000
"""Fingerprints within cases that are told apart; what comes after them is not looked at."""

_STORED = load_query("ingest", "stored_errors")


class StoredError(NamedTuple):
    """An error, the case that it is in, and the title of that case."""

    case_id: str
    title: str
    message: str
    extra: Mapping[str, Any]
    names: EventNames


class RegroupedPart(NamedTuple):
    """Errors of one case with one fingerprint of the version."""

    case_id: str
    fingerprint: str
    errors: int
    decided_by: str
    title: str
    example: str


class Regrouping(NamedTuple):
    """How many errors of how many cases were looked at, and how the version would group them.

    `joined` lists parts of several cases under one fingerprint, `split` parts of one case under several. Each begins
    with the largest. Not `complete`: there were more errors, or more kinds of them, than one look takes.
    """

    version: int
    errors: int
    cases: int
    joined: list[list[RegroupedPart]]
    split: list[list[RegroupedPart]]
    complete: bool


def regroup(errors: Iterable[StoredError], version: int) -> Regrouping:
    """Group errors by a version. Raises KeyError for one that does not exist."""
    groupings = {version: GROUPINGS[version]}
    parts: dict[tuple[str, str], RegroupedPart] = {}
    count, complete = 0, True
    for error in errors:
        if count == MOST_ERRORS or len(parts) == MOST_GROUPS:
            complete = False
            break
        count += 1
        evidence = gather(error.message, error.extra, client=_client_of(error.extra), names=error.names)
        [grouping] = group(evidence, groupings)
        key = (error.case_id, grouping.fingerprint)
        part = parts.get(key)
        if part is None:
            decided_by = grouping.why.partition(":")[2]
            part = RegroupedPart(error.case_id, grouping.fingerprint, 0, decided_by, error.title, error.message[:200])
        parts[key] = part._replace(errors=part.errors + 1)
    by_case, by_print = _listed(parts.values(), 0), _listed(parts.values(), 1)
    return Regrouping(version, count, len(by_case), _several(by_print), _several(by_case), complete)


def stored_errors(connection: psycopg.Connection[Any], project_id: str, days: int) -> Iterator[StoredError]:
    """Read the errors of the last days of a project, newest first. Raises psycopg.Error."""
    at, last = 2**62, ""
    while True:
        place = {"project_id": project_id, "at": at, "id": last, "days": days, "limit": PAGE}
        rows = connection.execute(_STORED, place).fetchall()
        for _, _, case_id, message, extra, packed, title, level, environment, release, tags in rows:
            said = msgspec.json.decode(extra) if packed is None else unpack(packed)
            names = EventNames(level, environment, release, msgspec.json.decode(tags))
            yield StoredError(case_id, title or "", message, said if isinstance(said, dict) else {}, names)
        if len(rows) < PAGE:
            return
        at, last = rows[-1][:2]


def _client_of(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """The fingerprint that an SDK gave, where its protocol keeps it."""
    sdk, properties = extra.get("sdk"), extra.get("properties")
    match sdk.get("protocol") if isinstance(sdk, dict) else None:
        case "sentry":
            return fingerprint_of(extra.get("fingerprint"))
        case "posthog" if isinstance(properties, dict):
            return fingerprint_of(properties.get("$exception_fingerprint"))
        case _:
            return ()


def _listed(parts: Iterable[RegroupedPart], member: int) -> dict[str, list[RegroupedPart]]:
    """Parts by their case (0) or fingerprint (1)."""
    found: dict[str, list[RegroupedPart]] = {}
    for part in parts:
        found.setdefault(str(part[member]), []).append(part)
    return found


def _several(lists: Mapping[str, list[RegroupedPart]]) -> list[list[RegroupedPart]]:
    """The lists of more than one part, those of the most errors first, and so within each."""
    several = [sorted(parts, key=lambda part: -part.errors) for parts in lists.values() if len(parts) > 1]
    return sorted(several, key=lambda parts: -sum(part.errors for part in parts))
