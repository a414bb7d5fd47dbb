"""Places of the console in addresses and forms. No text of somebody's leads out of it."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

ROOT = "/console"
LONGEST = 4_000
"""Characters of a place that a form may lead to."""
_BAD = re.compile(r"[\x00-\x1f\x7f\\]")


def local(place: str) -> str:
    """A place of the console as a form names it. The first page for anything else."""
    path = place.partition("?")[0]
    plain = unquote(path)
    leaves = plain.startswith("/") or ":" in plain or not {".", "..", ""}.isdisjoint(plain.split("/")[:-1])
    if len(place) > LONGEST or leaves or plain.split("/")[-1] in {".", ".."} or _BAD.search(unquote(place)):
        return ""
    return place


def way_to(place: str) -> str:
    """The address of a place, for the header of an answer that leads there."""
    path, mark, query = place.partition("?")
    return quote(f"{ROOT}/{path}".rstrip("/") + mark + query, safe="/?&=%:.~_-+!*'(),;@")
