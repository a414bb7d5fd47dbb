"""The plan that the demo proposes for its shop, and the instrumentation it asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MILESTONES = [
    ("account_opened", "A visitor opened an account.", ["plan_tier"], "# durable: the account exists",
     'telemetry.capture("account_opened", user, plan_tier="basic")'),
    ("item_added", "A customer put something into the cart.", ["item", "quantity"],
     "# durable: the item is in the cart",
     'telemetry.capture("item_added", user, item=item, quantity=quantity)'),
    ("order_paid", "A customer paid for an order: the first value, and the business result.",
     ["total_cents", "lines"], "# durable: the order is paid",
     'telemetry.capture("order_paid", user, total_cents=total, lines=len(cart))'),
]  # fmt: skip

MARKDOWN = """\
# From visitor to paid order

A *customer* enters through the shop's account form. Value flows from account to cart to paid order; the order is the
first value for the customer and the business result for the shop.

The one material failure is a declined payment. It can be provoked safely with the test card, which is why it is the
safe error of the proof. CI records each deploy once, after the tests passed, with the commit that was tested.
"""


def plan(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Lay out the plan for the shop as it stands in `snapshot`."""
    return {
        "business_question": "How many visitors who open an account go on to pay for an order?",
        "plan_markdown": MARKDOWN,
        "source_snapshot": snapshot,
        "historical_evidence": None,
        "milestones": [
            {
                "event": event,
                "meaning": meaning,
                "provider_boundary": "server_provider",
                "properties": properties,
                "targets": [{"file": "shop.py", "anchor": anchor}],
            }
            for event, meaning, properties, anchor, _ in MILESTONES
        ],
        "failures": [
            {
                "marker": "checkout.payment_declined",
                "meaning": "The card issuer declined; the customer leaves without an order.",
                "provider_boundary": "server_provider",
                "context": ["step"],
                "safe_live_proof": True,
                "targets": [{"file": "shop.py", "anchor": "except PaymentDeclined as error:"}],
            }
        ],
        "deploy": {
            "environment": "production",
            "sha_source": "git_head",
            "targets": [{"file": "ci_deploy.py", "anchor": 'sha = git("rev-parse", "HEAD")'}],
        },
    }


def instrument(shop: Path) -> None:
    """Capture each approved milestone right after its durable success."""
    source = shop.read_text()
    for _, _, _, anchor, call in MILESTONES:
        source = source.replace(anchor, f"{anchor}\n    {call}", 1)
    shop.write_text(source)
