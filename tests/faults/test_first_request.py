"""The first request after the database has stopped keeps its deadline, though every connection still looks alive."""

from __future__ import annotations

import time

from tests.faults.test_silent_database import stopped_database, timed
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.server import ServerFactory

MOST = {"GET": 1.0, "POST": 3.0}
LOADED = 0.6  # more, on a machine that does other things
IDLE = 0.5  # so that nothing is under way that would notice the silence


def test_it_is_answered_in_time(server_factory: ServerFactory):
    """A read is not done, and may be repeated; of a write that has begun nobody knows, which is what it is told."""
    server = server_factory.prepare()
    server.start()
    said = {
        "GET": "This could not be read in time.",
        "POST": "The service could not tell in time whether it carried this out",
    }
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        create_project(client, key)
        for method, most in MOST.items():
            server.wait_until_ready(10)
            client.get("/v1/projects", headers=bearer(key)).raise_for_status()
            time.sleep(IDLE)
            with stopped_database(server):
                body = {"json": {"name": "Late"}} if method == "POST" else {}
                headers = {**bearer(key), "idempotency-key": "late"}
                seconds, answer = timed(client, method, "/v1/projects", headers=headers, **body)
            assert (answer.status_code, answer.headers["retry-after"] != "") == (503, True)
            assert answer.json()["error"]["message"].startswith(said[method])
            assert seconds < most + LOADED
        # Repeated with its key it is carried out, once.
        server.wait_until_ready(10)
        made = client.post("/v1/projects", headers=headers, json={"name": "Late"})
        assert made.status_code == 201, made.text
        names = [item["name"] for item in client.get("/v1/projects", headers=bearer(key)).json()["projects"]]
        assert names.count("Late") == 1
