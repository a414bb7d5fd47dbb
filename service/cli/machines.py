"""`service machines`: the state machines, listed and drawn from their own tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.cli.shared.common import json_option, say, show

if TYPE_CHECKING:
    from statemachines.kernel.machine import StateMachine

Edge = tuple[str, str, str]
LINE_BREAK = "\\n"  # as Graphviz writes it


@click.group()
def machines() -> None:
    """List and draw the state machines."""


@machines.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the machines with their statuses and events."""
    rows = [
        {
            "machine": name,
            "kind": machine.kind,
            "initial": machine.initial.status.name.lower(),
            "statuses": len(machine.table.states),
            "events": len({topic for _, topic, _ in edges(machine)}),
            "transitions": len(edges(machine)),
        }
        for name, machine in named().items()
    ]
    show(rows, ("machine", "kind", "initial", "statuses", "events", "transitions"), as_json=as_json)


@machines.command()
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Draw every machine.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Directory for one file a machine.")
@click.option("--format", "form", type=click.Choice(["mermaid", "dot"]), default="mermaid", show_default=True)
def diagram(names: tuple[str, ...], every: bool, out: Path | None, form: str) -> None:
    """Draw the machines NAMES as Mermaid or Graphviz, on standard output or into --out."""
    found = named()
    unknown = sorted(set(names) - set(found))
    if unknown or bool(names) == every:
        hint = f"no machine is called {', '.join(unknown)}" if unknown else "name machines, or give --all"
        raise click.UsageError(f"{hint}; there are: {', '.join(found)}")
    for name in found if every else names:
        text = mermaid(found[name]) if form == "mermaid" else dot(found[name])
        if out is None:
            say(text)
            continue
        out.mkdir(parents=True, exist_ok=True)
        if form == "mermaid":
            page = f"# {name}\n\n```mermaid\n{text}```\n\n{_table(found[name])}"
            (out / f"{name}.md").write_text(page, encoding="utf-8")
        else:
            (out / f"{name}.dot").write_text(text, encoding="utf-8")


def _table(machine: StateMachine[Any]) -> str:
    """The transitions in words, for readers without a drawing."""
    begins = (
        f"A stream begins with the status `{machine.initial.status.name}`. Each event leads from one status to another:"
    )
    rows = [f"| `{source}` | `{topic}` | `{dest}` |" for source, topic, dest in edges(machine)]
    return "\n".join([begins, "", "| From | Event | To |", "| --- | --- | --- |", *rows]) + "\n"


def _name_of(machine: StateMachine[Any]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", machine.state_type.__name__.removesuffix("State")).lower()


def named() -> dict[str, StateMachine[Any]]:
    """The machines by the names of their states: `SignIn` is the state of sign_in, `ReceiptState` that of receipt."""
    from service.registry import machines as registered

    found = {_name_of(machine): machine for machine in registered().values()}
    assert len(found) == len(registered()), "two machines have states of one name"
    return dict(sorted(found.items()))


def edges(machine: StateMachine[Any]) -> list[Edge]:
    """Rows of a machine's table as (source, topic, destination), in the order of the statuses."""
    order = {name: place for place, name in enumerate(machine.table.states)}
    rows = [
        (row.source, topic, row.source if row.dest is None else row.dest)
        for topic, event in machine.table.events.items()
        for row in machine.table.get_transitions(topic)
        if event
    ]
    return sorted(rows, key=lambda row: (order[row[0]], order[row[2]], row[1]))


def mermaid(machine: StateMachine[Any], path: Sequence[Edge] = ()) -> str:
    """A Mermaid state diagram; events between the same two statuses share an arrow.

    `path` is what each event of a stream did, from its first revision on. The statuses on it are drawn filled, the
    last one strongly, and each topic carries the revisions at which it took an arrow.
    """
    taken: dict[Edge, list[str]] = {}
    for revision, edge in enumerate(path, 1):
        taken.setdefault(edge, []).append(f"r{revision}")

    def label(source: str, topic: str, dest: str) -> str:
        return " ".join([topic, *taken.get((source, topic, dest), ())])

    lines = ["stateDiagram-v2", f"    [*] --> {machine.initial.status.name}"]
    lines += [
        f"    {source} --> {dest}: {'<br/>'.join(label(source, topic, dest) for topic in topics)}"
        for (source, dest), topics in _joined(machine).items()
    ]
    if path:
        on_path = {status for source, _, dest in path for status in (source, dest)}
        now = path[-1][2]
        passed = [name for name in machine.table.states if name in on_path and name != now]
        lines += ["    classDef passed fill:#d6e4ff", "    classDef now fill:#2f6fed,color:#fff,stroke-width:3px"]
        lines += [f"    class {','.join(passed)} passed"] if passed else []
        lines += [f"    class {now} now"]
    return "\n".join(lines) + "\n"


def dot(machine: StateMachine[Any]) -> str:
    """A Graphviz digraph; events between the same two statuses share an arrow."""
    lines = [f'digraph "{machine.kind}" {{', "    rankdir=LR; node [shape=box, style=rounded];"]
    lines += [
        f'    "{name}"{" [penwidth=2]" * (name == machine.initial.status.name)};' for name in machine.table.states
    ]
    lines += [
        f'    "{source}" -> "{dest}" [label="{LINE_BREAK.join(topics)}"];'
        for (source, dest), topics in _joined(machine).items()
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _joined(machine: StateMachine[Any]) -> dict[tuple[str, str], list[str]]:
    """Topics by (source, destination)."""
    joined: dict[tuple[str, str], list[str]] = {}
    for source, topic, dest in edges(machine):
        joined.setdefault((source, dest), []).append(topic)
    return joined
