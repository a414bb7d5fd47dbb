"""A program that reports to PostHog: everything it is told is in its environment."""

import os

from posthog import Posthog


class PaymentError(Exception):
    """What goes wrong in it."""


def charge(card: int) -> None:
    """Fail."""
    raise PaymentError(f"Card {card} refused")


client = Posthog(
    os.environ["POSTHOG_API_KEY"], host=os.environ["POSTHOG_HOST"], gzip=bool(os.environ.get("PACKED")), debug=True
)
try:
    charge(17)
except PaymentError as error:
    client.capture_exception(error, distinct_id="u1", properties={"release": "shop@1.2.3"})
client.capture("order placed", distinct_id="u1", properties={"total": 12.5})
assert not client.feature_enabled("new-checkout", "u1")
assert client.get_all_flags("u1") == {}
client.shutdown()
