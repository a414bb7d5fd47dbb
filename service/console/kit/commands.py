"""The one form handler behind nearly all buttons: it carries out an operation as the form says it.

A form names the operation in its address, the values of its path as `_path.<name>`, its If-Match as `_if_match`, its
Idempotency-Key as `_key`, and the rest is the body (see `fields`). So no rule of any operation is written here. A form
sent twice is carried out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from service.auth.refusals import NotFound
from service.console.kit.page import Fields, Redirect, View, body_of, first, form
from service.console.kit.places import local
from service.console.kit.rendering import LEADING_ON, SECRETS
from service.console.kit.visit import Said, Visit
from service.http.edge import inner
from service.http.edge.declare.operations import KEY, Operation

PATH = "_path."
CHANGED = frozenset({HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED})


class ShownProblem(NamedTuple):
    """A problem as templates see it. `stale`: the page had been overtaken."""

    status: int
    code: str
    message: str
    next_action: str
    invalid: Mapping[str, str]
    stale: bool


class FormProblem(Exception):
    """The error of an operation, for its form to show beside the values entered."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(error["code"])
        self.status = status
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.next_action: str = error.get("next_action", "")
        details: Mapping[str, Any] = error.get("details") or {}
        self.allowed_next: Sequence[Any] = details.get("allowed_next") or ()
        self.invalid: Mapping[str, str] = _invalid(details)

    @classmethod
    def of_form(cls) -> FormProblem:
        """The problem of a form from another session."""
        message = "This form belongs to another sign-in. Look at the page once more, then send it again."
        return cls(HTTPStatus.FORBIDDEN, {"code": "form_of_another_session", "message": message})

    @classmethod
    def of_field(cls, name: str, reason: str) -> FormProblem:
        """The problem of one field, found by the form itself."""
        details = {"invalid_fields": [{"field": name, "reason": reason}]}
        error = {"code": "invalid_payload", "message": "A field is not acceptable.", "details": details}
        return cls(HTTPStatus.BAD_REQUEST, error)

    @property
    def stale(self) -> bool:
        """Whether the page had been overtaken."""
        return self.status in CHANGED

    @property
    def shown(self) -> ShownProblem:
        """The problem as templates see it."""
        return ShownProblem(self.status, self.code, self.message, self.next_action, self.invalid, self.stale)

    def changed(self, entered: Mapping[str, str], state: Mapping[str, str]) -> list[tuple[str, str, str]]:
        """What is otherwise than when the form was shown: label, text then and text now."""
        try:
            before = msgspec.json.decode(entered.get("_state", "{}"), type=dict[str, str])
        except msgspec.DecodeError:
            return []
        names = [name for name in {**before, **state} if before.get(name) != state.get(name)]
        return [(name, before.get(name, "–"), state.get(name, "–")) for name in names if before]


def _invalid(details: Mapping[str, Any]) -> Mapping[str, str]:
    """The refused fields, each with the reason."""
    refused = {one["field"]: one["reason"] for one in details.get("invalid_fields") or ()}
    unknown = dict.fromkeys(details.get("unknown_fields") or (), "is not taken")
    return {**refused, **unknown, **dict.fromkeys(details.get("missing_fields") or (), "is missing")}


def takes(operation: Operation) -> bool:
    """Whether a form may carry an operation out: one of people that changes something, with a body that has fields.

    Files, and the messages of MCP, are for programs.
    """
    return operation.method != "GET" and bool(operation.principals & KEY) and operation.body is not bytes


@form("do/{operation_id}")
async def carry_out(visit: Visit, fields: Fields) -> View | Redirect:
    """Carry out an operation of people. Raises FormProblem when it is refused, and NotFound for any other."""
    operation_id = visit.values["operation_id"]
    bound = inner.pipeline_of(visit.call).bound.get(operation_id)
    if bound is None or not takes(bound.operation):
        raise NotFound
    path = {name.removeprefix(PATH): values[0] for name, values in fields.items() if name.startswith(PATH)}
    headers = {"if-match": first(fields, "_if_match"), "idempotency-key": first(fields, "_key")}
    body = body_of(fields, bound.body_type)
    said = await visit.ask(
        operation_id, path, body=body, headers={name: value for name, value in headers.items() if value}
    )
    if not said.ok:
        raise FormProblem(said.status, said.error)
    if operation_id in SECRETS:
        return _shown_once(visit, operation_id, said, first(fields, "_next"))
    return Redirect(local(first(fields, "_next")), operation_id)


def _shown_once(visit: Visit, operation_id: str, said: Said, after: str) -> View:
    """The page of a secret shown once."""
    shown = [(label, said.body[member]) for label, member in SECRETS[operation_id] if said.body.get(member)]
    facts = {"shown": shown, "after": local(after), "answer": said.body}
    template = LEADING_ON.get(operation_id, "kit/secret.html")
    return View(template, "Keep this now", facts, visit.entered.get(f"{PATH}project_id", said.body.get("project_id")))


COMMANDS = [carry_out]
