"""A program that reports to Sentry or PostHog by the official SDK, and keeps a book of what was acknowledged.

    reporting.py (sentry|posthog) <book> <name>

Everything else is in its environment, as its SDK reads it. Each report is of a user of its own, `<name>-<number>`. The
book gets a line for each report whose request was answered with 200: the time and the user. SIGTERM ends it.
"""

import json
import os
import signal
import sys
import threading
import time
from typing import Any

GAP_SECONDS = 0.1
FLUSH_SECONDS = 20

kind, path, name = sys.argv[1:]
book = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())


def acknowledged(user: str) -> None:
    """Enter a report."""
    os.write(book, f"{time.time():.6f} {user}\n".encode())


def numbers():
    """Users, one at a time, until the end."""
    number = 0
    while not ended.wait(GAP_SECONDS):
        number += 1
        yield f"{name}-{number}"


def to_sentry() -> None:
    """Report errors. Its SDK sends each once, and drops what is not taken."""
    import sentry_sdk
    from sentry_sdk.transport import HttpTransport

    class Kept(HttpTransport):
        """The SDK's own transport, which sees the answers."""

        def _handle_response(self, response: Any, envelope: Any) -> None:
            super()._handle_response(response, envelope)
            if response.status == 200 and envelope is not None:
                for item in envelope.items:
                    if (event := item.get_event()) is not None:
                        acknowledged(event["user"]["id"])

    sentry_sdk.init(release="shop@1.2.3", default_integrations=False, transport=Kept)
    for user in numbers():
        with sentry_sdk.new_scope() as scope:
            scope.set_user({"id": user})
            sentry_sdk.capture_message("An order was refused", "error")
    sentry_sdk.flush(FLUSH_SECONDS)


def to_posthog() -> None:
    """Report events. Its SDK sends each again, under the same uuid, until it is taken or too often refused."""
    import posthog.request
    from posthog import Posthog

    def seen(answer: Any, **_: Any) -> None:
        if answer.status_code == 200:
            for event in json.loads(answer.request.body).get("batch", ()):
                acknowledged(event["distinct_id"])

    posthog.request._get_session().hooks["response"].append(seen)
    client = Posthog(
        os.environ["POSTHOG_API_KEY"],
        host=os.environ["POSTHOG_HOST"],
        flush_at=10,
        flush_interval=0.3,
        timeout=8,
        enable_exception_autocapture=False,
    )
    for user in numbers():
        client.capture("order placed", distinct_id=user)
    client.shutdown()


if __name__ == "__main__":
    {"sentry": to_sentry, "posthog": to_posthog}[kind]()
