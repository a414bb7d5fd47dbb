"""The shop's receiver of webhooks. Run as `python receiver.py PORT`, with the secret in SHOP_WEBHOOK_SECRET.

It takes a delivery only with a signature of the last five minutes, as Standard Webhooks has it, and counts each id once.
GET shows what it took.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 300
KEY = base64.b64decode(os.environ.get("SHOP_WEBHOOK_SECRET", "").removeprefix("whsec_"))
TAKEN: dict[str, dict] = {}
REFUSED: list[str] = []


def fault_of(headers: dict, body: bytes) -> str | None:
    identity, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(time.time() - int(at)) > TOLERANCE_SECONDS:
        return "too old"
    signed = base64.b64encode(hmac.digest(KEY, f"{identity}.{at}.".encode() + body, hashlib.sha256)).decode()
    given = headers.get("webhook-signature", "").split()
    return None if any(hmac.compare_digest(f"v1,{signed}", one) for one in given) else "forged"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fault = fault_of(self.headers, body)
        if fault is None:
            TAKEN.setdefault(self.headers["webhook-id"], json.loads(body))
            self.answer(200, {})
        else:
            REFUSED.append(fault)
            self.answer(401, {"error": fault})

    def do_GET(self) -> None:
        self.answer(200, {"taken": list(TAKEN.values()), "refused": REFUSED})

    def answer(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
