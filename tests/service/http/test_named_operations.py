"""Texts name only operations that are there, whoever reads them: hints, refusals, advice of the command line."""

from __future__ import annotations

import re
from pathlib import Path

from service.http.edge.routes import all_endpoints

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) (/[\w/{}.…-]*)")
PARAMETER = re.compile(r"\{[^}]*\}")
CHOSEN = "service/projects/next_steps.py"
"""Of what it names, only that is shown which is there (test_only_what_can_be_done_here_is_named)."""
NOT_YET = {"GET /adapters", "POST /v1/logs"}
"""Shown by an operation that is not there either; and a path that is spelled in two ways."""

ELSEWHERE = {"POST /add-checkpoint", "PUT /merge"}
"""An operation of a witness, and one that a hostile text names."""


def test_every_operation_that_a_text_names_is_there() -> None:
    there = {f"{e.operation.method} {PARAMETER.sub('{}', e.operation.path)}" for e in all_endpoints()}
    named = {
        (str(file.relative_to(ROOT)), f"{found[1]} {PARAMETER.sub('{}', found[2].rstrip('.'))}")
        for room in ("service", "schemas", "statemachines")
        for file in (ROOT / room).rglob("*.py")
        for found in NAMED.finditer(file.read_text())
        if "…" not in found[2]
    }
    assert len(named) > 50
    assert [
        (file, one) for file, one in sorted(named) if file != CHOSEN and one not in there | NOT_YET | ELSEWHERE
    ] == []
