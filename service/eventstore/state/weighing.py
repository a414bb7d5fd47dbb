"""What a value costs in memory: caches are bounded by this, not by how many things they hold (P26)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any

import msgspec

MALLOC = 8  # bytes that the allocator rounds an object up by, on average
_FREE = frozenset({bool, type(None), type})
_FLAT = frozenset({str, int, float, bytes})
_MAPS = frozenset({dict})
_ROWS = frozenset({list, tuple, set, frozenset})
_READERS: dict[type, Callable[[Any], tuple[Any, ...]] | None] = {}


def weigh(*values: Any) -> int:
    """Bytes of memory that these values hold together; what they share counts once.

    Takes what states and rows are made of: structs, lists, tuples, sets and dicts of scalars. Scalars in lists count
    once for each list. Costs up to half a microsecond for each object.
    """
    total = 0
    seen: set[int] = set()
    size, look = sys.getsizeof, seen.add
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind in _FREE or (mark := id(value)) in seen:
            continue
        look(mark)
        if kind in _FLAT:
            total += size(value) + MALLOC
            continue
        read = _READERS[kind] if kind in _READERS else _READERS.setdefault(kind, _fields(kind))
        if read is not None:
            total += size(value) + MALLOC
            waiting += read(value)
        elif kind in _MAPS or isinstance(value, dict):
            total += size(value) + MALLOC
            waiting += value
            waiting += value.values()
        elif kind in _ROWS or isinstance(value, list | tuple | set | frozenset):
            total += size(value) + MALLOC
            if _FLAT.issuperset(map(type, value)):  # Large documents are mostly lists of names.
                total += sum(map(size, value)) + MALLOC * len(value)
            else:
                waiting += value
        elif not isinstance(value, Enum):
            total += size(value) + MALLOC
    return total


def _fields(kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
    """What reads all fields of a struct at once; None of any other kind."""
    if not issubclass(kind, msgspec.Struct) or not kind.__struct_fields__:
        return None
    names = kind.__struct_fields__
    if len(names) > 1:
        return attrgetter(*names)
    only = attrgetter(names[0])
    return lambda value: (only(value),)
