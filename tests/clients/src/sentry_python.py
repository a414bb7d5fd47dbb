"""A program that reports to Sentry: everything it is told is in its environment."""

import os

import sentry_sdk


class PaymentError(Exception):
    """What goes wrong in it."""


def charge(card: int) -> None:
    """Fail."""
    raise PaymentError(f"Card {card} refused")


level = 9 if os.environ.get("PACKED") else 0
sentry_sdk.init(
    environment="staging", release="shop@1.2.3", _experiments={"transport_compression_level": level}, debug=True
)
try:
    charge(17)
except PaymentError as error:
    sentry_sdk.capture_exception(error)
sentry_sdk.capture_message("An order was placed", "info")
sentry_sdk.flush(5)
