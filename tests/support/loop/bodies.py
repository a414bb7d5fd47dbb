"""Request bodies of runners and CI about one change, for both implementations of the port."""

from __future__ import annotations

from typing import Any

HEAD = "b" * 40
MERGED = "c" * 40
READ_AT_HOST = ("checks_passed", "auto_merge_enabled", "merged")
PROTECTED = {"branch_protection_enforced": True, "bypass_used": False}
"""What CI has to read for each of these when the host merges (G-189)."""
_CHANGE = {
    "repository": "https://code.example/acme/shop",
    "base_branch": "main",
    "head_branch": "heal/1",
    "head_sha": HEAD,
}


def binding(mode: str, **changes: Any) -> dict[str, Any]:
    """The change for which a pull request is requested."""
    return {
        **_CHANGE,
        "delivery_mode": mode,
        "files_changed": ["src/cart.py"],
        "changed_lines": 12,
        "tests": [{"command": "make test", "passed": True}],
    } | changes


def observed(mode: str, observation: str = "pr_opened", **changes: Any) -> dict[str, Any]:
    """What CI saw of its pull request."""
    seen = {
        **_CHANGE,
        "observation": observation,
        "pr_number": 7,
        "pr_url": "https://code.example/acme/shop/pull/7",
        "draft": mode == "review_required",
    }
    if mode == "auto_merge" and observation in READ_AT_HOST:
        seen |= PROTECTED
    return seen | changes


def ready(mode: str, **changes: Any) -> dict[str, Any]:
    """CI saw all checks pass."""
    checks = [{"name": name, "conclusion": "success"} for name in ("build", "test")]
    protected = PROTECTED | {"auto_merge_enabled": False}
    return observed(mode, "checks_passed", **{"required_status_checks": checks, **protected} | changes)
