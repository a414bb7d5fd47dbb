"""Several cases acted on at once: one operation and one result for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from service.auth.refusals import InvalidPayload
from service.console.kit.fields import Fields, first
from service.console.kit.page import View, form
from service.console.kit.places import local
from service.console.kit.visit import Said, Visit

MOST = 50
DEEDS: Mapping[str, tuple[str, str]] = {
    "resolve": ("resolve_case", "resolved"),
    "ignore": ("ignore_case", "ignored"),
    "reopen": ("reopen_case", "reopened"),
    "assign": ("assign_case", "assigned"),
}
"""The actions on several cases: the operation, and the word for it afterwards."""


class ChosenCase(NamedTuple):
    """A chosen case, as the person saw it."""

    case_id: str
    revision: int

    @classmethod
    def read(cls, text: str) -> ChosenCase:
        """Take a choice apart, as the list wrote it. Raises InvalidPayload."""
        case_id, _, revision = text.partition(" ")
        if not case_id or not revision.isascii() or not revision.isdigit() or len(revision) > len(str(2**53)):
            raise InvalidPayload("A chosen case is not acceptable.", invalid=[("chosen", "is not a case of the list")])
        return cls(case_id, int(revision))


class DeedResult(NamedTuple):
    """The result for one case."""

    case_id: str
    done: bool
    message: str
    next_action: str


@form("projects/{project_id}/cases/several")
async def act_on_several(visit: Visit, fields: Fields) -> View:
    """Act on each chosen case at the revision seen. A refused one holds up none of the others.

    Raises InvalidPayload, and ReadRefused for a project that the person does not see.
    """
    project_id = visit.values["project_id"]
    await visit.read("get_setup", project_id=project_id)
    deed = first(fields, "deed")
    chosen = [ChosenCase.read(text) for text in dict.fromkeys(fields.get("chosen", ()))]
    _check(deed, chosen)
    operation_id, word = DEEDS[deed]
    key = first(fields, "_key")
    results = []
    for one in chosen:
        body: dict[str, Any] = {"case_revision": one.revision}
        if deed == "assign":
            body["user_id"] = first(fields, "user_id") or None
        said = await visit.ask(
            operation_id, {"case_id": one.case_id}, body=body, headers={"idempotency-key": f"{key}-{one.case_id}"}
        )
        results.append(_result(one, said, word))
    facts = {
        "results": results,
        "done_count": sum(one.done for one in results),
        "word": word,
        "after": local(first(fields, "_next")),
    }
    return View("cases/several.html", "Results for the chosen cases", facts, project_id)


def _check(deed: str, chosen: list[ChosenCase]) -> None:
    """Refuse an unknown action. Raises InvalidPayload."""
    if deed not in DEEDS:
        raise InvalidPayload("Nothing of this kind can be done to cases.", invalid=[("deed", "is unknown")])
    if not chosen:
        raise InvalidPayload("No case was chosen.", invalid=[("chosen", "must name a case at least")])
    if len(chosen) > MOST:
        raise InvalidPayload("Too many cases at once.", invalid=[("chosen", f"must be at most {MOST}")])


def _result(one: ChosenCase, said: Said, word: str) -> DeedResult:
    if said.ok:
        return DeedResult(one.case_id, done=True, message=word.capitalize(), next_action="")
    error = said.error
    return DeedResult(one.case_id, done=False, message=error["message"], next_action=error.get("next_action", ""))


FORMS = [act_on_several]
