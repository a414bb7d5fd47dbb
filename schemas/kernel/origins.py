"""Where each member of an answer to a runner comes from: told in the answer beside it, and in its schema (G-137).

An answer that a runner is handed has a last member `origins`: JSON Pointer -> origin of the member and of all that is
below it. Pointers never overlap. An object inside that has `origins` of its own is described by those. The map is the
same for every answer of a type, so it is declared beside the type, and a type that leaves a member out stops the start.

Other types have no such member. A class variable `PROVENANCE`, inherited by subclasses, names their members from others
than the service. All else in them is its own: its counts and decisions, and the texts of members of a project. Only a
type with texts from elsewhere needs that variable (G-168).

When one member may come from two places, the less trusted one is told: a run's reason may be its runner's. The map in
an answer names only members that are in it; the one in the schema names all that there may be.
"""

import types
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from schemas.kernel.shape import ONE_OF

Origin = Literal["server_fact", "provider_read", "untrusted_telemetry", "runner_output"]
"""What the service knows or decided; what it or a trusted CI read at a provider; what a product sent; what a runner
wrote or chose."""
Origins = dict[str, Origin]
SERVER: Origin = "server_fact"
PROVIDER: Origin = "provider_read"
TELEMETRY: Origin = "untrusted_telemetry"
RUNNER: Origin = "runner_output"
WORD = "x-origins"
WIRE = "schemas"
"""The package of the wire contracts."""
_SAID = (
    "JSON Pointer -> origin of that member and of all members below it. An object with its own origins is described by "
    "those."
)

S = TypeVar("S", bound=type[msgspec.Struct])


def origins(
    *,
    server: str = "",
    provider: str = "",
    telemetry: str = "",
    runner: str = "",
    below: dict[str, Origins] | None = None,
) -> Origins:
    """Make a map of member names, apart by spaces, and of maps for members that are objects of several origins."""
    named: tuple[tuple[Origin, str], ...] = (
        (SERVER, server),
        (PROVIDER, provider),
        (TELEMETRY, telemetry),
        (RUNNER, runner),
    )
    pairs = [(f"/{name}", origin) for origin, names in named for name in names.split()]
    for member, inner in (below or {}).items():
        pairs += [(f"/{member}{pointer}", origin) for pointer, origin in inner.items()]
    assert len({pointer for pointer, _ in pairs}) == len(pairs), "a member has two origins"
    return dict(pairs)


def provenance(kind: type[msgspec.Struct]) -> Origins | None:
    """Return the origins of a type without `origins`. None: the type is no wire contract, so nothing is known of it."""
    if not kind.__module__.startswith(f"{WIRE}."):
        return None
    declared: list[Origins] = [vars(one).get("PROVENANCE", {}) for one in reversed(kind.__mro__)]
    return {pointer: origin for one in declared for pointer, origin in one.items()}


def told(declared: Origins) -> Meta:
    """The annotation that shows a map in the schema."""
    return Meta(description=_SAID, extra_json_schema={WORD: declared})


def declared_origins(kind: type[msgspec.Struct]) -> Origins | None:
    """The map that a type declares; None when it has no `origins`."""
    for field in msgspec.structs.fields(kind):
        if field.name == "origins":
            found = (one.extra_json_schema for one in get_args(field.type)[1:] if isinstance(one, Meta))
            return next((extra[WORD] for extra in found if extra), {})
    return None


class Told(msgspec.Struct, frozen=True):
    """What every type with `origins` is: the map in an answer names only what is there (G-137).

    A member that is null is there; what would be below it is not.
    """

    def __post_init__(self) -> None:
        known: Origins = self.origins  # type: ignore[attr-defined]  # of each type that is one
        there = {pointer: origin for pointer, origin in known.items() if _is_there(self, pointer)}
        if len(there) < len(known):
            msgspec.structs.force_setattr(self, "origins", there)


def _is_there(answer: Any, pointer: str) -> bool:
    for name in _names(pointer):
        answer = getattr(answer, name, msgspec.UNSET)
        if answer is msgspec.UNSET:
            return False
    return True


@cache
def _names(pointer: str) -> list[str]:
    return pointer.split("/")[1:]


def originated(kind: S) -> S:
    """Hold a type to its declaration. Raises AssertionError when a member has no origin, or a pointer no member."""
    faults = list(faults_of(kind))
    if not issubclass(kind, Told):
        faults.append("absent members are not left out")
    assert not faults, f"{kind.__name__}: {', '.join(faults)}"
    return kind


def faults_of(kind: type[msgspec.Struct]) -> Iterator[str]:
    """Name every member of a type that has no origin, and every pointer that names no member."""
    known = declared_origins(kind)
    if known is None:
        yield "no origins"
        return
    used: set[str] = set()
    yield from (f"{pointer} has no origin" for pointer in _uncovered(kind, "", known, used))
    yield from (f"{pointer} is not a member, or is one of another pointer" for pointer in known.keys() - used)


def _uncovered(kind: type[msgspec.Struct], above: str, known: Origins, used: set[str]) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        pointer = f"{above}/{field.encode_name}"
        if pointer == "/origins":
            continue
        objects = list(_structs(field.type))
        if pointer in known:
            used.add(pointer)
        elif objects and all(declared_origins(one) is not None for one in objects):
            continue
        elif objects and not _holds_list(field.type):
            for one in objects:
                yield from _uncovered(one, pointer, known, used)
        else:
            yield pointer


def options(kind: Any) -> Iterable[Any]:
    """The possible types of a value, without their notes."""
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        named = [(note.extra or {}).get(ONE_OF, ()) for note in notes if isinstance(note, Meta)]
        return [one for kinds in named for one in kinds] or options(inner)
    if get_origin(kind) in {Union, types.UnionType}:
        return [one for option in get_args(kind) for one in options(option)]
    return [kind]


def _holds_list(kind: Any) -> bool:
    return any(get_origin(one) in {list, tuple} for one in options(kind))


def _structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The objects that a member is, or a list of."""
    for one in options(kind):
        if get_origin(one) in {list, tuple}:
            yield from _structs(get_args(one)[0])
        elif isinstance(one, type) and issubclass(one, msgspec.Struct):
            yield one
