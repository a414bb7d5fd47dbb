"""The history of a case, newest first: its events, its comments, and the decisions of automation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Json = Mapping[str, Any]
MICROSECONDS = 1_000_000
_TOLD: Mapping[str, str] = {
    "case.opened.v1": "Opened by its first error",
    "case.opened_ignored.v1": "Opened as ignored by a suppression rule",
    "case.opened_resolved.v1": "Opened as resolved by a suppression rule",
    "case.overflow_opened.v1": "Opened to count new errors beyond the limit",
    "case.regressed.v1": "Opened again by an error of a later release",
    "case.ignored.v1": "Ignored",
    "case.resolved.v1": "Resolved",
    "case.resolved_by_member.v1": "Resolved",
    "case.ignored_by_member.v1": "Ignored",
    "case.reopened.v1": "Reopened",
    "case.overflow_reopened.v1": "Reopened",
    "case.assigned.v1": "Assigned",
    "case.merged.v1": "Merged into another case",
    "case.split_off.v1": "Split off another case",
    "case.absorbed.v1": "Took in another case",
    "case.released.v1": "Gave up a merged case",
}
_NAMED = ("into_case_id", "from_case_id", "case_id")
_ACTORS: Mapping[str, str] = {"system": "the service", "dsn": "an error"}


class Happening(NamedTuple):
    """An entry `at` a time (epoch seconds), with its actor. `case_id` and `run_id` lead to other pages."""

    at: int
    what: str
    who: str
    said: str = ""
    case_id: str = ""
    run_id: str = ""
    mono: str = ""


def history(case: Json, events: Iterable[Json], names: Mapping[str, str]) -> list[Happening]:
    """All entries of a case. `names` are those of users and keys."""
    happened = [_event(event, names) for event in events]
    happened += [
        Happening(note["created_at"], "Commented", name_of(note["user_id"], names), said=note["text"])
        for note in case["comments"]
    ]
    happened += [
        Happening(run["created_at"], f"Agent run recorded: {run['status'].replace('_', ' ')}", "")
        for run in case["agent_runs"]
    ]
    return sorted(happened, key=lambda one: one.at, reverse=True)


def name_of(user_id: str, names: Mapping[str, str]) -> str:
    """The address of a member, a name for the service itself; the id of anybody else."""
    return names.get(user_id) or _ACTORS.get(user_id, user_id)


def _event(event: Json, names: Mapping[str, str]) -> Happening:
    payload: Json = event["payload"] or {}
    what = _TOLD.get(event["topic"], event["topic"])
    if "user_id" in payload:
        user_id = payload["user_id"]
        what = f"Assigned to {name_of(user_id, names)}" if user_id else "Assigned to nobody"
    elif payload.get("suppression_id") and event["topic"] in {"case.ignored.v1", "case.resolved.v1"}:
        what += " by a suppression rule"
    elif payload.get("run_id"):
        what += " by a run"
    return Happening(
        event["recorded_at"] // MICROSECONDS,
        what,
        _actor(event, names),
        case_id=next((payload[name] for name in _NAMED if payload.get(name)), ""),
        run_id=payload.get("run_id") or "",
        mono=payload.get("suppression_id") or "",
    )


def _actor(event: Json, names: Mapping[str, str]) -> str:
    kind, actor_id = event["actor_kind"], event["actor_id"]
    return names.get(actor_id) or _ACTORS.get(kind) or f"{kind} {actor_id}"
