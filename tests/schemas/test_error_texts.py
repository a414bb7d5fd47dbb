"""`GET /v1/errors` lists the text that clients get: a code with one fixed text has it in the catalogue."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from schemas.kernel.errors import CATALOGUE

ROOT = Path(__file__).parents[2]
TREES = [
    (path.relative_to(ROOT), ast.parse(path.read_text()))
    for room in ("service", "statemachines")
    for path in (ROOT / room).rglob("*.py")
]
# Refusals of the edge that have the catalogue's own text unless something more precise is known; commands of the
# store are translated; and runs, whose texts name what differs.
GENERAL = {"rate_limited", "principal_not_allowed", "owner_required", "idempotency_key_reused"}
NAMING = ("runs",)


def code_of(node: ast.ClassDef) -> str | None:
    for line in node.body:
        if (
            isinstance(line, ast.Assign)
            and ast.unparse(line.targets[0]) == "code"
            and isinstance(line.value, ast.Constant)
        ):
            return str(line.value.value)
    return None


def fixed_texts() -> dict[str, str]:
    """The text of each code whose refusals all have one and the same."""
    classes = {
        n.name: code
        for _, tree in TREES
        for n in ast.walk(tree)
        if isinstance(n, ast.ClassDef) and (code := code_of(n))
    }
    texts: dict[str, set[str | None]] = defaultdict(set)
    for path, tree in TREES:
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            code = classes.get(ast.unparse(node.func).rpartition(".")[2])
            if code is not None:
                first = node.args[0]
                fixed = isinstance(first, ast.Constant) and path.parts[1] not in NAMING
                texts[code].add(str(first.value) if fixed and isinstance(first, ast.Constant) else None)
    return {code: text for code, found in texts.items() if len(found) == 1 and (text := next(iter(found))) is not None}


def test_a_fixed_text_is_that_of_the_catalogue() -> None:
    fixed = {code: text for code, text in fixed_texts().items() if code in CATALOGUE and code not in GENERAL}
    assert len(fixed) > 10
    assert {code: CATALOGUE[code].message for code in fixed} == fixed
