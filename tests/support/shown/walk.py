"""One walk over the whole interface, on a server with everything that an installation may have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.support.ci_issuer import running_ci_issuer
from tests.support.cluster import TestCluster
from tests.support.payments import KEY, SECRET, running_payments
from tests.support.provider import running_provider
from tests.support.provider.api import running_api
from tests.support.server import ServerHandle
from tests.support.shown.collecting import Camera, Seen, successes
from tests.support.shown.epilogue import end, exchange, finish
from tests.support.shown.plain import HOST
from tests.support.tenants.tour import Tenant, take_tour


class Walker(Tenant):
    """A tenant who asks for a verdict before it can be there, wherever the tour waits for one."""

    def __init__(self, server: ServerHandle, camera: Camera) -> None:
        super().__init__(server, camera, "alex")
        self._camera = camera

    def read_client(self) -> Any:
        """Read the document of our OAuth client, as a provider does."""
        return self.call("GET", "/.well-known/oauth-client", None, None)

    def advance(self, seconds: int) -> None:
        answers = [json.loads(response.content) for request, response in self._camera.seen if _is_deploy(request)]
        runs = [answer["automation_run_id"] for answer in answers if answer["automation_run_id"] is not None]
        for run_id in runs[-1:]:
            self.call("POST", f"/v1/automation-runs/{run_id}/verify", {}, self.owner_key)
        super().advance(seconds)


def _is_deploy(request: httpx2.Request) -> bool:
    return (request.method, request.url.path) == ("POST", "/v1/deploys/")


@contextmanager
def walking(
    cluster: TestCluster, directory: Path, camera: Camera, **settings: str
) -> Iterator[tuple[Walker, ServerHandle]]:
    """Take the tour and its epilogue but for the ends, and stay for a block. `settings` are further ones."""
    with (
        running_provider() as provider,
        running_api(stocked=True) as api,
        running_payments() as payments,
        running_ci_issuer("github") as issuer,
        cluster.database() as url,
    ):
        env = {
            **provider.unknown_env,
            "SERVICE_BASE_URL": HOST,  # so that our own document is the client id
            **api.env(),
            "SERVICE_PAYMENT_API_KEY": KEY,
            "SERVICE_PAYMENT_WEBHOOK_SECRET": SECRET,
            "SERVICE_PAYMENT_API_BASE": payments.url,
            "SERVICE_CI_ISSUERS": f"github={issuer.url}",
            "SERVICE_SMTP_URL": "smtp://127.0.0.1:9",
            "SERVICE_SMTP_SENDER": "service@shop.example",
            "SERVICE_SECURITY_CONTACT": "mailto:security@shop.example",
            "SERVICE_CHANGE_PASSWORD_URL": "https://id.shop.example/password",
            **settings,
        }
        server = ServerHandle(directory, database_url=url, env=env)
        try:
            server.start()
            with Walker(server, camera) as tenant:
                take_tour(tenant)
                provider.documents[f"{HOST}/.well-known/oauth-client"] = tenant.read_client()
                finish(tenant, server)
                exchange(tenant, issuer)
                yield tenant, server
        finally:
            server.stop()


def walk(cluster: TestCluster, directory: Path) -> list[Seen]:
    """Take the tour and its epilogue to their ends; returns every exchange that succeeded, made plain."""
    camera = Camera()
    with walking(cluster, directory, camera) as (tenant, server):
        end(tenant)
        secrets = frozenset(tenant.secrets.values())
    return list(successes(camera, server.base_url, secrets))
