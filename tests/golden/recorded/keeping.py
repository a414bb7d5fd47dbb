"""The recording as text: each answer once, and a table of every group of operations that says which kind got which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from service.http.edge.routes import all_endpoints
from tests.golden.recorded.recording import Answer, Answers

KEPT = Path(__file__).parents[2] / "golden" / "answers"
ANSWERS = KEPT / "answers.txt"
BETWEEN = " | "
Table = dict[str, dict[str, str]]
"""Names of answers, by operation and kind of request."""


def keep(found: Answers) -> None:
    """Write a recording in the place of the kept one."""
    for old in KEPT.glob("*.txt"):
        old.unlink()
    different = {answer.name: answer.text for kinds in found.values() for answer in kinds.values()}
    texts = [f"== {name}\n{text}\n" for name, text in sorted(different.items(), key=lambda one: (one[1], one[0]))]
    ANSWERS.write_text("".join(texts), encoding="utf-8")
    for group, names in groups().items():
        lines = [line for name in names for line in _lines(name, found[name])]
        (KEPT / f"{group}.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def groups() -> dict[str, list[str]]:
    """The operations of each documented group."""
    found = defaultdict(list)
    for endpoint in all_endpoints():
        found[endpoint.operation.group].append(endpoint.operation.operation_id)
    return {group: sorted(names) for group, names in sorted(found.items())}


def _lines(name: str, kinds: dict[str, Answer]) -> Iterator[str]:
    alike = defaultdict(list)
    for kind, answer in kinds.items():
        alike[answer.status, answer.name].append(kind)
    yield f"# {name}"
    for (status, answer), asked in sorted(alike.items()):
        yield f"{status} {answer} {BETWEEN.join(asked)}"


def kept_table(group: str) -> Table:
    """The kept table of a group; empty where there is none."""
    found: Table = {}
    path = KEPT / f"{group}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        if line.startswith("# "):
            kinds = found[line[2:]] = {}
        else:
            _, answer, asked = line.split(" ", 2)
            kinds |= dict.fromkeys(asked.split(BETWEEN), answer)
    return found


def kept_answers() -> dict[str, str]:
    """The kept answers by their names."""
    found = {}
    for piece in ANSWERS.read_text(encoding="utf-8").removeprefix("== ").split("\n== "):
        name, _, text = piece.partition("\n")
        found[name] = text.removesuffix("\n")
    return found
