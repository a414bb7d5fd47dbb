"""Refusals of pages, for people."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlencode

from litestar.types import HTTPScope

from service.console.kit.headers import FRAMELESS, HEADERS
from service.http.edge.answer.errors import Failure
from service.http.edge.answer.reply import Reply
from service.http.edge.declare.headers import head_of

ROOT = "/console"
SIGN_IN = f"{ROOT}/enter"


def failure_page(failure: Failure, scope: HTTPScope) -> Reply:
    """A refusal as a page. It leads to the sign-in without a session."""
    request_id = head_of(scope).request_id
    if failure.status == HTTPStatus.UNAUTHORIZED:
        back = scope["path"].removeprefix(ROOT).strip("/") if scope["method"] == "GET" else ""
        way = f"{SIGN_IN}?{urlencode({'next': back})}" if back else SIGN_IN
        return Reply(HTTPStatus.SEE_OTHER, b"", {"location": way, **FRAMELESS}, request_id)
    from service.console.kit.rendering import render  # noqa: PLC0415 - most refusals lead to the sign-in

    body = render("kit/failure.html", {"failure": failure, "request_id": request_id, "theme": ""})
    return Reply(failure.status, body, {**failure.headers, **HEADERS}, request_id)
