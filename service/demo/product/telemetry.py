"""How the shop reports: one function for events, one for errors. Everything it needs is in the environment.

SERVICE_DSN names the project; SHOP_RELEASE the version; SERVICE_ONBOARDING_PROOF the marker while a proof is open.
"""

import json
import os
import traceback
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

PROOF = "service_onboarding_proof"


def post(path: str, body: dict) -> dict:
    dsn = os.environ["SERVICE_DSN"]
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    request = Request(
        f"{parts.scheme}://{host}{path}",
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {dsn}", "content-type": "application/json", "user-agent": "shop/1"},
    )
    with urlopen(request, timeout=5) as response:
        return json.load(response)


def proof() -> dict:
    marker = os.environ.get("SERVICE_ONBOARDING_PROOF")
    return {PROOF: marker} if marker else {}


def capture(event: str, user: str, **properties: object) -> None:
    post("/v1/analytics/", {"event": event, "distinct_id": user, "properties": {**properties, **proof()}})


def report(error: BaseException, user: str, failure: str | None = None, **context: str) -> None:
    frames = [
        {"file": os.path.basename(frame.filename), "function": frame.name, "line": frame.lineno, "in_app": True}
        for frame in reversed(traceback.extract_tb(error.__traceback__))
    ]
    tags = {**context, **proof(), **({"failure_marker": failure} if failure else {})}
    post(
        "/v1/logs/",
        {
            "level": "error",
            "message": str(error) or type(error).__name__,
            "environment": "production",
            "release": os.environ.get("SHOP_RELEASE", "unknown"),
            "user": {"id": user},
            "tags": tags,
            "extra": {"exception": {"type": type(error).__name__, "frames": frames}},
        },
    )
