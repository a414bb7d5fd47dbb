"""The kinds of deliveries at the edge, for everybody (G-091, G-160)."""

from __future__ import annotations

from schemas.webhooks import WebhookEventList
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.webhooks.testing import catalogue

CACHED = {"cache-control": "public, max-age=300"}


@groups.WEBHOOKS.operation(
    method="GET",
    path="/v1/webhook-events",
    operation_id="list_webhook_events",
    summary="List the kinds of deliveries with schema and example",
    principals=frozenset({PrincipalKind.ANONYMOUS}),
    responses={200: WebhookEventList},
    extension=True,
)
async def list_webhook_events(_: Call[None, None]) -> Answer:
    """List every kind of delivery."""
    return Answer(200, catalogue(), CACHED)


ENDPOINTS = [list_webhook_events]
