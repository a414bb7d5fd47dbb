"""A relay between the command and the service, which stops or loses a request as a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.support import seen

Hook = Callable[[str, str], bool]
"""Called with method and path before a request is relayed. True: the answer is lost."""


@contextmanager
def relaying(base_url: str, before: Hook = lambda *_: False) -> Iterator[str]:
    """Relay to this address. Yields the relay's own."""

    class Handler(BaseHTTPRequestHandler):
        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            lost = before(self.command, self.path)
            sent = {name: self.headers[name] for name in self.headers if name.lower() not in {"host", "connection"}}
            with seen.client(base_url, timeout=20) as client:
                answer = client.request(self.command, self.path, content=body, headers=sent)
            if lost:
                self.connection.close()
                return
            self.send_response(answer.status_code)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PUT = relay  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with serving(Handler) as url:
        yield url


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on loopback until the block ends. Yields the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
