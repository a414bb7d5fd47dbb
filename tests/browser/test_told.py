"""A member of a team, from the first error over messages in their chat to an approval in a browser."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser

from service.accounts.membership import offer_session
from tests.support.chromium import seated
from tests.support.hands import Hands
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server

SUMMARY = "I would like to open a pull request that retries the payment."


class Chat:
    """A channel that takes incoming webhooks, and shows its messages."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.messages.append(json.loads(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/T0/B0/x"

    def until_told(self, words: str) -> str:
        """Wait for a message with these words, and return it as text."""
        give_up = time.monotonic() + 20
        while not (found := [text for one in self.messages if words in (text := json.dumps(one))]):
            assert time.monotonic() < give_up, self.messages
            time.sleep(0.05)
        return found[0]


@pytest.fixture
def chat() -> Iterator[Chat]:
    one = Chat()
    thread = threading.Thread(target=one.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        one.server.shutdown()
        one.server.server_close()
        thread.join()


def place_in(at: HttpScene, message: str) -> str:
    """Where the one link of a message leads, below `/console`."""
    [place] = set(re.findall(rf"{re.escape(at.server.base_url)}/console/([^|>\"\\]+)", message))
    return str(place)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_an_error_is_told_and_its_repair_approved(at: HttpScene, chat: Chat, chromium: Browser, scripts: bool) -> None:
    path = f"{at.project}/notifications/destinations"
    made = at.must(at.post(path, {"kind": "slack", "url": chat.url, "name": "Our channel"}, who="owner"), 201)
    rule = {"events": ["case.created", "approval.requested"]}
    at.must(at.call("PUT", f"{path}/{made['id']}/rule", rule, who="owner"), 200)
    at.running()
    approval = at.must(at.act("approvals", {"action": "draft_pr", "summary": SUMMARY}), 201)
    case, request = (place_in(at, chat.until_told(words)) for words in ("New case", "Summary by the runner"))
    link = at.world.run(partial(offer_session, user_id=at.world.users["owner"])).secret
    with seated(chromium, at.server.base_url, scripts=scripts) as seat:
        stranger = Hands(seat)
        seat.expect(401)
        seat.page.goto(f"{at.server.base_url}/console/{request}")
        assert "retries the payment" not in seat.text, "a link alone shows nothing"
        seat.page.goto(f"{at.server.base_url}/console/enter?token={link}")
        stranger.press("Sign in")
        seat.open(case)
        stranger.reads("Payment declined for order 17")
        seat.open(request)
        stranger.reads(SUMMARY)
        stranger.press("Approve draft PR")
        stranger.page.get_by_role("button", name="Approve draft PR").wait_for(state="detached")
    found = at.must(at.call("GET", f"{at.project}/automation-approvals", who="owner"), 200)["approvals"]
    assert [(one["approval_id"], one["status"]) for one in found] == [(approval["approval_id"], "approved")]
