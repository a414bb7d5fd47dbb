"""What the routes that foreign SDKs send to have in common (G-142)."""

from typing import Any

from service.http.declare import groups
from service.http.declare.endpoint import Body, Declare, Docs, Who
from service.http.declare.forms import Sdk
from service.http.declare.operations import SENDERS


def sdk_route(
    sdk: Sdk,
    path: str,
    operation_id: str,
    summary: str,
    answer: type[Any],
    *,
    max_body: int,
    unpacked: int,
    piecewise: bool = False,
    media_type: str = "application/octet-stream",
    content_type: str = "application/json",
    shown_body: type[Any] | None = None,
) -> Declare:
    """Declare a route of an SDK: at most `max_body` bytes sent, and `unpacked` once they are that.

    `piecewise`: the handler reads them a piece at a time. `media_type`,
    `shown_body` and `content_type` are those of body and answer in the document.
    """
    body = Body(
        strict=False,
        max_body=max_body,
        unpacked=unpacked,
        piecewise=piecewise,
        adjusts=True,
        sdk=sdk,
        media_type=media_type,
        shown_body=shown_body,
    )
    docs = Docs(answer, errors=("project_deletion_in_progress",), extension=True, content_type=content_type)
    return groups.INGEST.post(path, summary, Who(SENDERS), body, docs, operation_id=operation_id)
