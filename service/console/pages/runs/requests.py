"""Requests for approval as pages show them, each whole, with its hash and its consequence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import rfc8785

from service.console.kit.visit import Json

DIFFS = ("diff", "patch")
MEANS: Mapping[str, str] = {
    "draft_pr": "Approving lets this run open one pull request within its policy. Opening it still needs a grant.",
    "auto_merge": "Approving lets this run turn on the provider's auto-merge for its one pull request.",
    "escalate": "Approving lets this run hand the case over to a person.",
}
MARKED_LINES = 2000
"""Lines of a diff that are marked one by one. The rest follows whole: nobody approves what is not shown."""


class Line(NamedTuple):
    """A line of a diff: its text and its kind ("added", "removed" or "")."""

    text: str
    kind: str


class ShownRequest(NamedTuple):
    """A request of the interface, its hash, the diffs in its evidence, and the rest of the evidence."""

    shown: Json
    sha256: str
    diffs: Sequence[tuple[str, Sequence[Line]]]
    evidence: Any
    means: str

    @property
    def pending(self) -> bool:
        """Whether it waits for a decision."""
        return bool(self.shown["status"] == "pending")


def request_of(approval: Json) -> ShownRequest:
    """A request for a page."""
    evidence = approval["evidence"] or {}
    diffs = [(name, _lines(evidence[name])) for name in DIFFS if isinstance(evidence.get(name), str)]
    rest = {name: value for name, value in evidence.items() if name not in dict(diffs)}
    asked = {name: approval[name] for name in ("approval_id", "run_id", "action", "summary", "evidence")}
    digest = hashlib.sha256(rfc8785.dumps(asked)).hexdigest()
    return ShownRequest(approval, digest, diffs, rest, MEANS.get(approval["action"], ""))


def states_of(requests: Sequence[ShownRequest]) -> dict[str, str]:
    """The facts under a decision. They are the status, the reason and the hash of each request."""
    found = {}
    for one in requests:
        name = f"Request {one.shown['approval_id']}"
        reason = f" ({one.shown['reason']})" if one.shown["reason"] else ""
        found[name] = one.shown["status"] + reason
        found[f"{name}, SHA-256"] = one.sha256
    return found


def _lines(text: str) -> list[Line]:
    lines = text.splitlines()
    marked = [Line(line, _kind(line)) for line in lines[:MARKED_LINES]]
    rest = "\n".join(lines[MARKED_LINES:])
    return [*marked, Line(rest, "")] if rest else marked


def _kind(line: str) -> str:
    if line.startswith("+") and not line.startswith("+++"):
        return "added"
    return "removed" if line.startswith("-") and not line.startswith("---") else ""
