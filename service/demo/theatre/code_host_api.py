"""The shop's code host over HTTP: GitHub's two operations on pull requests, for a runner with a token."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from service.demo.theatre.code_host import Host


@contextmanager
def serve(bare: Path, repository: str, token: str) -> Iterator[str]:
    """Serve the pull requests of a hosted repository at the yielded address."""
    path = f"/repos/{repository}/pulls"
    owner = repository.split("/", maxsplit=1)[0]

    class Handler(BaseHTTPRequestHandler):
        """One request."""

        def do_GET(self) -> None:
            """List the pull requests of a branch."""
            if self._is_known():
                [head] = parse_qs(urlsplit(self.path).query).get("head", [""])
                pulls = Host(bare).pulls()
                self._answer(200, [_shown(one) for one in pulls if head in ("", f"{owner}:{one['head_branch']}")])

        def do_POST(self) -> None:
            """Open a pull request."""
            if self._is_known():
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                opened = Host(bare).open(asked["head"], asked["title"], draft=asked.get("draft", False))
                self._answer(201, _shown(opened))

        def _is_known(self) -> bool:
            """Whether path and token are right. Answers wrong ones."""
            shown = self.headers.get("authorization", "").encode()
            if not hmac.compare_digest(shown, f"Bearer {token}".encode()):
                self._answer(401, {"message": "Bad credentials"})
                return False
            if urlsplit(self.path).path != path:
                self._answer(404, {"message": "Not Found"})
                return False
            return True

        def _answer(self, status: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _shown(pull: dict[str, Any]) -> dict[str, Any]:
    """A pull request in GitHub's form."""
    return {
        "number": pull["number"],
        "node_id": f"PR_{pull['number']}",
        "html_url": pull["url"],
        "state": "open" if pull["merge_commit_sha"] is None else "closed",
        "draft": pull["draft"],
        "head": {"ref": pull["head_branch"], "sha": pull["head_sha"]},
        "base": {"ref": pull["base_branch"]},
    }
