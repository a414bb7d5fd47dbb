"""Live pages: a page says which streams it shows, and its browser hears of each change to them.

The address to listen at is signed with the session that was shown the page, so nobody listens to anything else. What
is heard is a position of the log, no more: the page is then read anew, with all of its checks.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from service.auth.authority import streams_of
from service.auth.refusals import NotFound
from service.console.kit.places import FRAMELESS
from service.console.kit.visit import Visit
from service.http.edge.answer.streamed import Streamed
from service.http.edge.declare.call import Call
from statemachines.kernel.machine import Rejection

ALL = "*"
"""Stands among the streams for all of the page's project; on a page without one, for all of the person."""
SENT = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
TOGETHER_SECONDS = 0.25  # within which several changes are told as one
RETRY_MS = 2000
MOST_STREAMS = 50


class ShownStreams(NamedTuple):
    """What a page shows: streams by their ids, within a project or without one."""

    streams: Sequence[str]
    project_id: str


def address(visit: Visit, streams: Sequence[str], project_id: str | None) -> str:
    """Where the browser of a visit hears of changes to streams."""
    followed = ShownStreams(sorted(set(streams))[:MOST_STREAMS], project_id or "")
    said = {"streams": " ".join(followed.streams), "project": followed.project_id}
    return f"/console/follow?{urlencode({**said, 'token': _token(visit.secret, followed)})}"


async def follow(call: Call[Any, Any], visit: Visit) -> Streamed:
    """Tell of changes until the session or its right to the project ends.

    Raises NotFound for what no page has shown to this session, and ProjectNotFound.
    """
    followed = ShownStreams(visit.query.get("streams", "").split(), visit.query.get("project", ""))
    if not hmac.compare_digest(_token(visit.secret, followed).encode(), visit.query.get("token", "").encode()):
        raise NotFound
    await _admit(call, followed.project_id)
    return Streamed(_changes(call, followed), headers=FRAMELESS, endless=True)


async def _changes(call: Call[Any, Any], followed: ShownStreams) -> AsyncIterator[bytes]:
    follower, wake = call.services.follower, asyncio.Event()
    streams = [stream for stream in followed.streams if stream != ALL]
    all_of = [followed.project_id or call.user_id] if ALL in followed.streams else []
    rights = (
        streams_of(call.principal, followed.project_id) if followed.project_id else (call.principal.id, call.user_id)
    )
    with (
        await follower.listen(streams=streams, projects=all_of, tell=wake.set) as shown,
        await follower.listen(streams=rights, tell=wake.set) as authority,
    ):
        yield b"retry: %d\nevent: begun\ndata: 0\n\n" % RETRY_MS
        told, admitted = 0, -1  # The session may have ended before the listening began.
        while True:
            wake.clear()
            if authority.heard != admitted:
                admitted = authority.heard
                try:
                    await _admit(call, followed.project_id)
                except Rejection:
                    return
            if shown.heard != told:
                told = shown.heard
                yield b"event: changed\ndata: %d\n\n" % shown.position
                await asyncio.sleep(TOGETHER_SECONDS)
                continue
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await wake.wait()
            except TimeoutError:
                admitted = -1
                yield b": still there\n\n"


async def _admit(call: Call[Any, Any], project_id: str) -> None:
    await call.readmit()
    if project_id:
        await call.services.authenticator.standing(call.principal, project_id)


def _token(secret: str, followed: ShownStreams) -> str:
    said = "\n".join([followed.project_id, *followed.streams])
    digest = hmac.digest(secret.encode(), f"console follow\n{said}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
