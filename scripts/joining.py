"""Join modules by a plan: definitions move with their text, and every reference follows.

`python -m scripts.joining PLAN` reads a plan of lines:

    service/x/thing.py = commands reads show     # sources in the order in which they are read; a folder is optional
    rename service/x/show.py:thing shown_thing   # of two public names that meet, one gets another
    alias service/x/show.py:Role WireRole        # and so does a name that is imported from two places
    doc service/x/thing.py Things: made, read and shown.

It writes nothing while anything is in the way: two public names that meet, a name that is bound where it would come to
stand, or modules and folders that would import each other in a circle. Private names that meet get the name of their
module, twins with the same text become one, and lists of pages, forms and endpoints are put together. Tests of a folder
that goes move to the folder above it, unless it becomes a module.
Afterwards run ruff, mypy and the tests: a program that reads names at run time
is beyond it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOMS = ("service", "statemachines", "projections", "schemas")
LISTS = ("PAGES", "FORMS", "ENDPOINTS", "COMMANDS")
"""Lists that a module declares of its own: joined modules have one of all their members."""
WIDTH = 117
GONE = "pass  # joined"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Unjoinable(Exception):
    """What is in the way of a plan, a line each."""


@dataclass
class Plan:
    """Targets with their sources, as paths from the root, and names that change: (path, old) to new."""

    joins: dict[str, list[str]] = field(default_factory=dict)
    renames: dict[tuple[str, str], str] = field(default_factory=dict)
    aliases: dict[tuple[str, str], str] = field(default_factory=dict)
    docs: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Plan:
        """A plan from its lines. Raises ValueError for a line of no such form."""
        plan = cls()
        for line in filter(None, (line.split("  #")[0].strip() for line in text.splitlines())):
            match line.split(" ", 2):
                case ["rename" | "alias" as kind, where, new]:
                    path, _, old = where.partition(":")
                    (plan.renames if kind == "rename" else plan.aliases)[path, old] = new
                case ["doc", path, sentence]:
                    plan.docs[path] = sentence
                case _:
                    target, _, sources = (part.strip() for part in line.partition("="))
                    folder = target.rpartition("/")[0]
                    paths = (source if source.endswith(".py") else f"{source}.py" for source in sources.split())
                    plan.joins[target] = [path if "/" in path else f"{folder}/{path}" for path in paths]
                    if not plan.joins[target]:
                        raise ValueError(line)
        return plan

    @property
    def moves(self) -> dict[str, str]:
        """The target of each source."""
        return {source: target for target, sources in self.joins.items() for source in sources}


def dotted(path: str) -> str:
    """The name of a module by its path."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Origin(NamedTuple):
    """Where an imported name comes from. `name` is None for a module."""

    module: str
    name: str | None


class Source:
    """A module: its text and tree, replacements of places in it, and the names that it binds."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.raw = text.encode()
        self._starts = [0]
        for line in self.raw.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self.changes: set[tuple[int, int, bytes]] = set()
        self.top = dict(_defined(self.tree.body))
        self.bound = set(_bound(self.tree))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First byte and the one after the last of a node."""
        first, last = self._starts[node.lineno - 1], self._starts[node.end_lineno - 1]  # type: ignore[attr-defined]
        return first + node.col_offset, last + node.end_col_offset  # type: ignore[attr-defined]

    def replace(self, node: ast.AST, new: str) -> None:
        """Put another text in the place of a node."""
        self.changes.add((*self.span(node), new.encode()))

    def drop(self, begin: int, end: int) -> None:
        """Take a part out, with all replacements in it."""
        self.changes = {one for one in self.changes if one[1] <= begin or one[0] >= end} | {(begin, end, b"")}

    def changed(self, begin: int = 0, end: int | None = None) -> str:
        """The text with its replacements, from one byte to another."""
        out, at = [], begin
        for first, last, new in sorted(self.changes):
            if first >= begin and last <= (len(self.raw) if end is None else end):
                out += [self.raw[at:first], new]
                at = last
        return b"".join([*out, self.raw[at:end]]).decode()

    def imports(self) -> Iterator[tuple[ast.ImportFrom, ast.alias]]:
        """Every name that is imported from somewhere, at any depth."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from ((node, alias) for alias in node.names)

    def named(self, node: Function | ast.ClassDef) -> tuple[int, int]:
        """The place of the name in a definition."""
        begin = self._starts[node.lineno - 1]
        found = re.compile(rb"(?:def|class)\s+(\w+)").search(self.raw, begin)
        assert found is not None
        return found.span(1)


def _defined(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for inner in chain.from_iterable(map(ast.walk, _targets(node))):
                if isinstance(inner, ast.Name):
                    yield inner.id, node
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _defined(getattr(node, part, ()))


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case _:
                pass


class Join:
    """A plan carried out in a checkout."""

    def __init__(self, root: Path, plan: Plan) -> None:
        self.root, self.plan = root, plan
        self.listed = subprocess.run(
            ["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        self._move_tests()
        paths = [path for path in self.listed if path.endswith(".py") and (root / path).is_file()]
        missing = set(plan.moves) - set(paths)
        if missing:
            raise Unjoinable(f"no such files: {sorted(missing)}")
        self.modules = {dotted(path): path for path in paths}
        self.moved = {dotted(source): dotted(target) for source, target in plan.moves.items()}
        self.sources = {path: Source((root / path).read_text(encoding="utf-8")) for path in paths}
        for (path, old), new in plan.aliases.items():
            self.sources[path] = Source(_realiased(self.sources[path], old, new))
        self.renamed: dict[str, dict[str, str]] = defaultdict(dict)
        for (path, old), new in plan.renames.items():
            self.renamed[dotted(path)][old] = new
        self.troubles: list[str] = []
        self.twins: dict[str, set[str]] = defaultdict(set)
        self.lists: dict[str, dict[str, list[str]]] = defaultdict(dict)

    def carry_out(self) -> None:
        """Write the joined modules and all that refers to them. Raises Unjoinable and writes nothing then."""
        for target, sources in self.plan.joins.items():
            self._settle(target, sources)
        for path in self.sources:
            _Rewriting(self, path).carry_out()
        self.troubles += self._circles()
        if self.troubles:
            raise Unjoinable("\n".join(self.troubles))
        joined = {target: self._joined(target, sources) for target, sources in self.plan.joins.items()}
        for path, source in self.sources.items():
            if path in self.plan.moves:
                (self.root / path).unlink()
            elif source.changes:
                (self.root / path).write_text(source.changed(), encoding="utf-8")
        for path, text in joined.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, encoding="utf-8")
        self._follow_in_other_files()
        self._remove_empty_folders()

    def _move_tests(self) -> None:
        """Plan the tests of folders that go: up, with the name of their folder."""
        moves, kept = self.plan.moves, set()
        code = (path for path in self.listed if path.startswith(ROOMS) and not path.endswith("__init__.py"))
        for path in (moves.get(path, path) for path in code):
            kept |= {str(folder) for folder in Path(path).parents}
        for path in (path for path in self.listed if path.startswith("tests/") and path.endswith(".py")):
            folder = Path(path).parent
            room = str(folder).removeprefix("tests/")
            if path.endswith("__init__.py") or not room.startswith(ROOMS) or room in kept or path in moves:
                continue
            if f"{room}.py" in moves.values():  # which they go on testing
                continue
            if (self.root / room).is_dir():
                prefix, bare = re.fullmatch(r"(test_)?(.*)", Path(path).name).groups("")  # type: ignore[union-attr]
                self.plan.joins[str(folder.parent / f"{prefix}{folder.name}_{bare}")] = [path]

    def origin(self, module: str, name: str) -> Origin:
        """Where a name that is imported comes from once all has moved."""
        full = f"{module}.{name}"
        if full in self.modules:
            return Origin(self.moved.get(full, full), None)
        return Origin(self.moved.get(module, module), self.renamed[module].get(name, name))

    def _settle(self, target: str, sources: Sequence[str]) -> None:
        """Decide on names that meet in a target."""
        imported: dict[str, set[Origin]] = defaultdict(set)
        defined: dict[str, list[tuple[str, str, ast.stmt]]] = defaultdict(list)
        for path in self._ordered(sources):
            for node, alias in self.sources[path].imports():
                origin = self.origin(str(node.module), alias.name)
                if origin.module != dotted(target):
                    imported[alias.asname or origin.name or alias.name].add(origin)
            for name, statement in self.sources[path].top.items():
                defined[self.renamed[dotted(path)].get(name, name)].append((path, name, statement))
        for name, origins in imported.items():
            if len(origins) > 1 or name in defined:
                self.troubles.append(f"{target}: {name} comes from {sorted(map(str, origins))} and {defined.get(name)}")
        for name, places in defined.items():
            if len(places) > 1:
                self._part(target, name, places)

    def _part(self, target: str, name: str, places: Sequence[tuple[str, str, ast.stmt]]) -> None:
        """Let two definitions of one name be: as one, or each under a name of its own."""
        texts = {ast.get_source_segment(self.sources[path].text, node) for path, _, node in places}
        values = [node.value for _, _, node in places if isinstance(node, ast.Assign)]
        if name in LISTS and all(isinstance(value, ast.List | ast.Tuple) for value in values):
            members = [(path, inner) for path, _, node in places for inner in node.value.elts]  # type: ignore[attr-defined]
            self.lists[target][name] = [
                self.renamed[dotted(path)].get(ast.unparse(inner), ast.unparse(inner)) for path, inner in members
            ]
            for path, old, _ in places:
                self.twins[path].add(old)
        elif len(texts) == 1 and not any(self._rests_on_own(path, node) for path, _, node in places):
            for path, old, _ in places[1:]:
                self.twins[path].add(old)
        elif name.startswith("_"):
            kept = next((path for path, _, _ in places if Path(path).stem == Path(target).stem), None)
            for path, old, _ in places:
                if path != kept:
                    self.renamed[dotted(path)][old] = _longer(Path(path).stem, name)
        else:
            self.troubles.append(f"{target}: {name} is defined in {[path for path, _, _ in places]}")

    def _rests_on_own(self, path: str, node: ast.stmt) -> bool:
        """Whether a function or class uses private names of its module: the same text may mean others elsewhere."""
        own = {name for name in self.sources[path].top if name.startswith("_")}
        return isinstance(node, Function | ast.ClassDef) and any(
            isinstance(inner, ast.Name) and inner.id in own for inner in ast.walk(node)
        )

    def _ordered(self, sources: Sequence[str]) -> list[str]:
        """Sources so that whatever one imports of another stands above it."""
        names = {dotted(path): path for path in sources}
        needs = {path: set[str]() for path in sources}
        for path in sources:
            for node, alias in self.sources[path].imports():
                for module in (str(node.module), f"{node.module}.{alias.name}"):
                    needs[path] |= {names[module]} - {path} if module in names else set()
        ordered: list[str] = []
        while len(ordered) < len(sources):
            left = [path for path in sources if path not in ordered]
            ordered.append(next((path for path in left if needs[path] <= set(ordered)), left[0]))
        return ordered

    def _circles(self) -> Iterator[str]:
        """Siblings, modules or folders, that would import each other."""
        siblings: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for path in (path for path in self.sources if path.startswith(ROOMS)):
            own = self.moved.get(dotted(path), dotted(path)).split(".")
            for node, alias in self.sources[path].imports():
                module = self.origin(str(node.module), alias.name).module
                if module in self.modules or module in self.moved.values():
                    other = module.split(".")
                    same = next((at for at, (a, b) in enumerate(zip(own, other, strict=False)) if a != b), 0)
                    if same:
                        siblings[".".join(own[:same])][own[same]].add(other[same])
        for folder, uses in siblings.items():
            for first, second in ((first, second) for first, seconds in uses.items() for second in seconds):
                if first < second and first in _reached(uses, second):
                    yield f"{folder}: {first} and {second} import each other"

    def _joined(self, target: str, sources: Sequence[str]) -> str:
        """The text of a target."""
        head: dict[str, None] = {}
        checking: dict[str, None] = {}
        parts: list[tuple[str, str]] = []
        first = ""
        for path in self._ordered(sources):
            module = _Taken.apart(self.sources[path], self.twins[path])
            head |= dict.fromkeys(module.head)
            checking |= dict.fromkeys(module.checking)
            said = module.doc
            if path == sources[0]:  # the rest of what it says stays on top
                first, said = said, said.partition("\n")[0] if target in self.plan.docs else ""
            parts.append((said, module.body))
        doc = "\n".join([self.plan.docs.get(target, first.partition("\n")[0]), *first.partition("\n")[2:]]).rstrip()
        lines = [f'"""{doc}"""' if "\n" not in doc else f'"""{doc}\n"""', ""]
        future = "from __future__ import annotations"
        lines += [future, ""] if future in head else []
        lines += [line for line in head if line != future]
        if checking:
            lines += [
                "from typing import TYPE_CHECKING",
                "",
                "if TYPE_CHECKING:",
                *(f"    {line}" for line in checking),
            ]
        for said, body in parts:
            if body:
                lines += ["", "", *_comment(said), body]
        lines += [f"{name} = [{', '.join(members)}]" for name, members in self.lists[target].items()]
        return "\n".join(lines).rstrip() + "\n"

    def _follow_in_other_files(self) -> None:
        """Put the new paths and names of modules into pages, settings and strings."""
        paths = {source: target for source, target in self.plan.moves.items() if source != target}
        names = {dotted(source): dotted(target) for source, target in paths.items()}
        places = "|".join(map(re.escape, sorted([*paths, *names], key=len, reverse=True)))
        inner = {source.partition("/")[2]: target.partition("/")[2] for source, target in paths.items()}
        pattern = re.compile(rf"(?<![\w.])(?:{places})(?!\w)|(?<=\")(?:{'|'.join(map(re.escape, inner))})(?=\")")
        for path in (self.root / path for path in self.listed):
            if path.suffix in {".md", ".py", ".toml", ".txt", ".yml", ".html"} and path.is_file() and paths:
                if path.name == "CHANGELOG.md":
                    continue
                text = path.read_text(encoding="utf-8")
                new = pattern.sub(lambda found: paths.get(found[0]) or inner.get(found[0]) or names[found[0]], text)
                if new != text:
                    path.write_text(new, encoding="utf-8")

    def _remove_empty_folders(self) -> None:
        """Remove folders in which nothing but the line that makes a package is left."""
        for path in sorted(self.plan.moves, key=lambda path: -path.count("/")):
            folder = (self.root / path).parent
            while folder.is_dir() and {one.name for one in folder.iterdir()} <= {"__init__.py", "__pycache__"}:
                for one in sorted(folder.rglob("*"), reverse=True):
                    one.rmdir() if one.is_dir() else one.unlink()
                folder.rmdir()
                folder = folder.parent


class _Rewriting:
    """The replacements in one module: its imports, and the names that they bind."""

    def __init__(self, join: Join, path: str) -> None:
        self.join, self.path, self.source = join, path, join.sources[path]
        self.home = join.moved.get(dotted(path), dotted(path))
        self.names = dict(join.renamed[dotted(path)])
        self.imported = {
            alias.asname or alias.name: (str(node.module), alias.name) for node, alias in self.source.imports()
        }
        self.modules: dict[str, str] = {}
        """By the local name of a module that moved: its new one, empty for the module itself."""

    def carry_out(self) -> None:
        """Find all replacements."""
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self._import(node)
        seen = {id(node.value) for node in ast.walk(self.source.tree) if self._attribute(node)}  # type: ignore[attr-defined]
        for node in ast.walk(self.source.tree):
            match node:
                case ast.Name(id=name) if id(node) not in seen:
                    if name in self.names:
                        self.source.replace(node, self.names[name])
                    elif self.modules.get(name) == "":
                        self.join.troubles.append(f"{self.path}:{node.lineno}: {name} would be the module itself")
                    elif name in self.modules:
                        self.source.replace(node, self.modules[name])
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    if name in self.names and self.source.top.get(name) is node:
                        self.source.changes.add((*self.source.named(node), self.names[name].encode()))
                case ast.arg(arg=name) if name in self.names:
                    self.join.troubles.append(f"{self.path}:{node.lineno}: {name} is a parameter as well")
                case ast.Call(func=ast.Name(id="cast"), args=[ast.Constant(value=str(text)) as kind, _]):
                    new = re.sub(r"\w+", lambda found: self.names.get(found[0], found[0]), text)
                    if new != text:
                        self.source.replace(kind, f'"{new}"')
                case _:
                    pass

    def _import(self, node: ast.ImportFrom) -> None:
        groups: dict[str, dict[str, None]] = defaultdict(dict)
        for alias in node.names:
            origin, local = self.join.origin(str(node.module), alias.name), alias.asname or alias.name
            if origin.module == self.home and dotted(self.path) in self.join.moved:
                if origin.name is None:
                    self.modules[local] = ""
                elif origin.name != local:
                    self.names[local] = origin.name
                continue
            module, _, stem = origin.module.rpartition(".") if origin.name is None else (origin.module, "", origin.name)
            new = self._local(alias, stem, origin)
            groups[module][f"{stem} as {new}" if new != stem or alias.asname == alias.name else stem] = None
        indent = "\n" + " " * node.col_offset
        text = indent.join(f"from {module} import {', '.join(names)}" for module, names in groups.items()) or GONE
        if text != ast.unparse(node):
            self.source.replace(node, text)

    def _local(self, alias: ast.alias, stem: str, origin: Origin) -> str:
        """The local name of an import, as it was where its new one is taken."""
        if alias.asname or stem == alias.name:
            return alias.asname or alias.name
        taken = self.source.bound | {
            name for name, place in self.imported.items() if self.join.origin(*place) != origin
        }
        new = stem if stem not in taken else f"{stem}s"
        if new in taken:
            return alias.name
        (self.modules if origin.name is None else self.names)[alias.name] = new
        return new

    def _attribute(self, node: ast.AST) -> bool:
        """Replace a name that is read of a module. Returns whether it was one."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return False
        local = node.value.id
        module = ".".join(self.imported[local]) if local in self.imported else ""
        attribute = self.join.renamed[module].get(node.attr, node.attr) if module in self.join.modules else node.attr
        new = self.modules.get(local, local)
        if (new, attribute) == (local, node.attr):
            return False
        if new == "" and attribute in self.source.bound - set(self.source.top):
            self.join.troubles.append(f"{self.path}:{node.lineno}: {attribute} is bound here")
        self.source.replace(node, f"{new}.{attribute}" if new else attribute)
        return True


class _Taken(NamedTuple):
    """A module taken apart: its description, imports, imports for types alone, and all else."""

    doc: str
    head: list[str]
    checking: list[str]
    body: str

    @classmethod
    def apart(cls, source: Source, twins: set[str]) -> _Taken:
        """Take a module apart, without the definitions that another one brings."""
        body, doc, begin = list(source.tree.body), ast.get_docstring(source.tree) or "", 0
        if doc:
            begin = source.span(body.pop(0))[1]
        head: list[str] = []
        checking: list[str] = []
        while body:
            node = body[0]
            if isinstance(node, ast.Import | ast.ImportFrom):
                place, end = source.span(node)
                line = source.raw.find(b"\n", end)
                above, after = source.raw[begin:place].decode().strip(), source.raw[end:line].decode().strip()
                text = source.changed(place, end)
                head += [] if text == GONE else [*([above] if above else []), f"{text}  {after}".rstrip()]
                begin = line
            elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not node.orelse:
                checking += [text for inner in node.body if (text := source.changed(*source.span(inner))) != GONE]
                begin = source.span(node)[1]
            else:
                break
            body.pop(0)
        for node, following in zip(body, [*body[1:], None], strict=False):
            names = {name for name, found in source.top.items() if found is node}
            if names and names <= twins:
                said = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                decorated = getattr(node, "decorator_list", ())
                source.drop(
                    source.span(decorated[0])[0] - 1 if decorated else source.span(node)[0],
                    source.span(following if said and following and isinstance(node, ast.Assign) else node)[1],
                )
        return cls(doc, head, checking, source.changed(begin).strip("\n"))


def _realiased(source: Source, old: str, new: str) -> str:
    """A text whose import under one local name has another."""
    for node in ast.walk(source.tree):
        match node:
            case ast.alias(name=name, asname=alias) if (alias or name) == old:
                source.replace(node, name if name == new else f"{name} as {new}")
            case ast.Name(id=name) if name == old:
                source.replace(node, new)
            case _:
                pass
    return source.changed()


def _longer(stem: str, name: str) -> str:
    """A private name with the name of its module in it."""
    bare = name.lstrip("_")
    if bare.isupper():
        return f"_{stem.upper()}_{bare}"
    return f"_{stem.title().replace('_', '')}{bare}" if bare[0].isupper() else f"_{stem}_{bare}"


def _reached(uses: Mapping[str, set[str]], start: str) -> set[str]:
    """All that is imported from a place, at any distance."""
    found: set[str] = set()
    left = {start}
    while left:
        one = left.pop()
        found.add(one)
        left |= uses.get(one, set()) - found
    return found


def _comment(text: str) -> list[str]:
    """A sentence as lines of a comment."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + len(word) < WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"# {word}")
    return [*lines, ""] if lines else []


if __name__ == "__main__":
    try:
        Join(Path.cwd(), Plan.read(Path(sys.argv[1]).read_text(encoding="utf-8"))).carry_out()
    except Unjoinable as trouble:
        sys.exit(str(trouble))
