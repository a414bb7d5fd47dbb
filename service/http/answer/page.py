"""Pages for people without a web app of ours: one frame, and headers that let nobody put it into another."""

import base64
import hashlib
from collections.abc import Mapping
from html import escape

HTML = "text/html; charset=utf-8"
FORM = "application/x-www-form-urlencoded"
"""What a form of a page is sent as."""

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 4rem auto; padding: 0 1rem; color: #1a1a1a; }
code, pre { font: 14px/1.5 ui-monospace, monospace; background: #f3f3f3; border-radius: 4px; }
code { padding: 0.1rem 0.3rem; } pre { padding: 0.8rem; overflow-x: auto; }
.code { font-size: 2rem; letter-spacing: 0.15em; }
"""

_FRAME = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{style}</style></head>
<body>
<h1>{title}</h1>
{content}</body>
</html>
"""

_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def _headers(sources: str) -> Mapping[str, str]:
    return {
        "content-security-policy": (
            f"default-src 'none'; {sources}; img-src 'self'; base-uri 'none'; form-action 'self'; "
            "frame-ancestors 'none'"
        ),
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }


HEADERS = _headers(f"style-src 'sha256-{_STYLE_HASH}'")
LINKED = _headers("script-src 'self'; style-src 'self'")
"""For pages that link to a style sheet and a script of this host."""


def frame(title: str, content: str) -> bytes:
    """Write a page. `content` is HTML already, the title is not."""
    return _FRAME.format(title=escape(title), style=_STYLE, content=content).encode()
