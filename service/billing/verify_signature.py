"""Whether the payment provider has signed what came in its name (G-073)."""

from __future__ import annotations

import time
from typing import Any, Final

TOLERANCE_SECONDS: Final = 300


def is_signed(library: Any, secret: str, header: str, body: bytes) -> bool:
    """Whether the bytes are signed with the secret, within five minutes of now by the real clock (G-073, G-120).

    The comparison takes the same time whatever is wrong. `library` is the provider's own, loaded.
    """
    try:
        # What Webhook.construct_event does before it parses; the edge parses, with its own bounds.
        library.WebhookSignature.verify_header(body, header, secret, TOLERANCE_SECONDS)
    except (library.SignatureVerificationError, UnicodeDecodeError):
        return False
    # The library lets the time of a signature lie ahead as far as it likes.
    [moment, *_] = (int(part[2:]) for part in header.split(",") if part.startswith("t="))
    return moment <= time.time() + TOLERANCE_SECONDS
