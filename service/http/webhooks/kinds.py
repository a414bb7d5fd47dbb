"""The kinds of deliveries at the edge, for everybody (G-091, G-160)."""

from __future__ import annotations

from schemas.webhooks import WebhookEventList
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Who
from service.webhooks.testing import catalogue

CACHED = {"cache-control": "public, max-age=300"}


@groups.WEBHOOKS.get("/v1/webhook-events", "List the kinds of deliveries with schema and example")
@Who(frozenset({PrincipalKind.ANONYMOUS}))
@Docs(WebhookEventList, extension=True)
async def list_webhook_events(_: Call[None, None]) -> Answer:
    """List every kind of delivery."""
    return Answer(200, catalogue(), CACHED)


ENDPOINTS = [list_webhook_events]
