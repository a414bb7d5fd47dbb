"""Write schemas/kernel/run_errors.json: every text that the codes of automation are sent with (G-006).

The texts are read out of the refusals in the code. A text that is still sent keeps its place, a new one comes last. The
first of a code is its default, which stays: a refusal without a next action takes that of the default.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from schemas.kernel.errors import CATALOGUE, RUN_ERRORS  # noqa: E402

FILE = ROOT / "schemas" / "kernel" / "run_errors.json"
# Refusals of the edge that have the catalogue's own text unless something more precise is known; commands of the
# store are translated.
GENERAL = {"rate_limited", "principal_not_allowed", "owner_required", "idempotency_key_reused", "invalid_payload"} | {
    "service_unavailable"
}


class Sent(NamedTuple):
    """A place that sends a code. A text is None where it is not fixed, a next action also where none is given."""

    code: str
    path: Path
    message: str | None
    next_action: str | None


def _code_of(node: ast.ClassDef) -> str | None:
    for line in node.body:
        if (
            isinstance(line, ast.Assign)
            and ast.unparse(line.targets[0]) == "code"
            and isinstance(line.value, ast.Constant)
        ):
            return str(line.value.value)
    return None


@cache
def _trees() -> list[tuple[Path, ast.Module]]:
    """What is read here; parsed when a test first asks, which whoever collects the tests does not."""
    return [
        (path.relative_to(ROOT), ast.parse(path.read_text()))
        for room in ("service", "statemachines")
        for path in (ROOT / room).rglob("*.py")
    ]


@cache
def _classes() -> dict[str, str]:
    """The code of every refusal, by the name of its class."""
    return {
        node.name: code
        for _, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and (code := _code_of(node))
    }


def _text_of(node: ast.expr | None, constants: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return constants.get(node.id) if isinstance(node, ast.Name) else None


def _builds(tree: ast.Module, constants: dict[str, str]) -> Iterator[tuple[str, str, str | None]]:
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
                    and (code := _classes().get(ast.unparse(node.func)))
                ):
                    yield function.name, code, _text_of(_next_action_of(node), constants)


def _next_action_of(call: ast.Call) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == "next_action"), None)


def calls() -> Iterator[Sent]:
    """Every place that sends a code with a message of its own."""
    for path, tree in _trees():
        constants = {
            line.targets[0].id: line.value.value
            for line in tree.body
            if isinstance(line, ast.Assign)
            and isinstance(line.targets[0], ast.Name)
            and isinstance(line.value, ast.Constant)
            and isinstance(line.value.value, str)
        }
        builders = {name: (code, action) for name, code, action in _builds(tree, constants)}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in builders:
                code, action = builders[name]
                yield Sent(code, path, _text_of(node.args[0], constants), action)
            elif name in _classes() and not (builders and _text_of(node.args[0], constants) is None):
                yield Sent(
                    _classes()[name],
                    path,
                    _text_of(node.args[0], constants),
                    _text_of(_next_action_of(node), constants),
                )


@cache
def sent() -> list[Sent]:
    """Every place that sends a code with a text of its own."""
    return [one for one in calls() if one.code not in GENERAL]


def of_runs() -> set[str]:
    """The codes that commands on automation are refused with."""
    return {one.code for one in sent() if "runs" in one.path.parts or one.path.parts[-2:] == ("contracts", "policy.py")}


def texts() -> dict[str, list[tuple[str, str]]]:
    """What the file has to say: texts of codes that a module of runs sends. Those of cases, written by hand, stay."""
    known = {name: [(text.message, text.next_action) for text in error.texts] for name, error in RUN_ERRORS.items()}
    runs = of_runs()
    found = {name: _texts_of(name, known.get(name, [])) for name in runs - (CATALOGUE.keys() - known.keys())}
    return {name: found.get(name, known.get(name, [])) for name in [*known, *sorted(found.keys() - known.keys())]}


def _texts_of(name: str, known: list[tuple[str, str]]) -> list[tuple[str, str]]:
    found = [one for one in sent() if one.code == name and one.message is not None]
    default = known[0][1] if known else next((one.next_action for one in found if one.next_action), "")
    now = list(dict.fromkeys((str(one.message), one.next_action or default) for one in found))
    kept = [text for text in known if text in now or text == known[0]]
    return kept + [text for text in now if text not in kept]


def main() -> None:
    """Write the file anew."""
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(texts()), indent=1) + b"\n")
    print(f"{FILE.relative_to(ROOT)}: {len(RUN_ERRORS)} codes")


if __name__ == "__main__":
    main()
