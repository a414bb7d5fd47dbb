"""`GET /v1/errors` lists the texts that clients get: the one of a code, and for the codes of runs every one of them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from schemas.kernel.errors import CATALOGUE

ROOT = Path(__file__).parents[2]
# Refusals of the edge that have the catalogue's own text unless something more precise is known; commands of the
# store are translated.
GENERAL = {"rate_limited", "principal_not_allowed", "owner_required", "idempotency_key_reused", "invalid_payload"}


class Sent(NamedTuple):
    """A place that sends a code. A text is None where it is not fixed, a next action also where none is given."""

    code: str
    path: Path
    message: str | None
    next_action: str | None


def code_of(node: ast.ClassDef) -> str | None:
    for line in node.body:
        if (
            isinstance(line, ast.Assign)
            and ast.unparse(line.targets[0]) == "code"
            and isinstance(line.value, ast.Constant)
        ):
            return str(line.value.value)
    return None


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    """What is read here; parsed when a test first asks, which whoever collects the tests does not."""
    return [
        (path.relative_to(ROOT), ast.parse(path.read_text()))
        for room in ("service", "statemachines")
        for path in (ROOT / room).rglob("*.py")
    ]


@cache
def classes() -> dict[str, str]:
    """The code of every refusal, by the name of its class."""
    return {
        node.name: code
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and (code := code_of(node))
    }


def text_of(node: ast.expr | None, constants: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def builds(tree: ast.Module, constants: dict[str, str]) -> Iterator[tuple[str, str, str | None]]:
    """Functions that build a refusal around a message they are given: their name, its code, its next action."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.args.args:
            first = function.args.args[0].arg
            for node in ast.walk(function):
                if (
                    isinstance(node, ast.Call)
                    and node.args
                    and isinstance(node.args[0], ast.Name)
                    and node.args[0].id == first
                    and (code := classes().get(ast.unparse(node.func)))
                ):
                    yield function.name, code, text_of(next_action_of(node), constants)


def next_action_of(call: ast.Call) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == "next_action"), None)


def calls() -> Iterator[Sent]:
    """Every place that sends a code with a message of its own."""
    for path, tree in trees():
        constants = {
            line.targets[0].id: line.value.value
            for line in tree.body
            if isinstance(line, ast.Assign)
            and isinstance(line.targets[0], ast.Name)
            and isinstance(line.value, ast.Constant)
            and isinstance(line.value.value, str)
        }
        builders = {name: (code, action) for name, code, action in builds(tree, constants)}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in builders:
                code, action = builders[name]
                yield Sent(code, path, text_of(node.args[0], constants), action)
            elif name in classes() and not (builders and text_of(node.args[0], constants) is None):
                yield Sent(
                    classes()[name],
                    path,
                    text_of(node.args[0], constants),
                    text_of(next_action_of(node), constants),
                )


@cache
def sent() -> list[Sent]:
    return [one for one in calls() if one.code in CATALOGUE and one.code not in GENERAL]


def of_runs() -> set[str]:
    return {one.code for one in sent() if "runs" in one.path.parts or one.path.parts[-2:] == ("contracts", "policy.py")}


def test_a_fixed_text_is_that_of_the_catalogue() -> None:
    messages: dict[str, set[str | None]] = defaultdict(set)
    for one in sent():
        messages[one.code].add(one.message)
    fixed = {code: found.pop() for code, found in messages.items() if len(found) == 1}
    fixed = {code: message for code, message in fixed.items() if message is not None}
    assert len(fixed) > 30
    assert {code: CATALOGUE[code].message for code in fixed} == fixed


def test_the_codes_of_runs_list_every_text_that_is_sent_and_no_other() -> None:
    """Message and next action as they go together; where no next action is given, the catalogue's own follows."""
    expected: dict[str, set[tuple[str | None, str]]] = defaultdict(set)
    known = of_runs()
    for one in sent():
        if one.code in known:
            expected[one.code].add((one.message, one.next_action or CATALOGUE[one.code].next_action))
    assert len(expected) > 30
    listed = {code: {(text.message, text.next_action) for text in CATALOGUE[code].texts} for code in expected}
    assert listed == expected


def test_the_first_text_is_the_one_shown_and_none_is_listed_twice() -> None:
    for code, known in CATALOGUE.items():
        assert (known.texts[0].message, known.texts[0].next_action) == (known.message, known.next_action), code
        assert len(set(known.texts)) == len(known.texts), code
