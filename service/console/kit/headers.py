"""The headers of pages and of what leads to them."""

from __future__ import annotations

from collections.abc import Mapping

from service.http.edge.answer.page import HTML

HEADERS: Mapping[str, str] = {
    "content-type": HTML,
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # "no-referrer" would have browsers send the origin "null" with forms
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
FRAMELESS: Mapping[str, str] = {name: value for name, value in HEADERS.items() if name != "content-type"}
"""The same for answers without a page: ways to another place, files and streams."""
