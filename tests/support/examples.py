"""An ordinary instance of any event, made from its declaration alone: the same one every time."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import NODEFAULT, inspect

S = TypeVar("S", bound=msgspec.Struct)


def example(struct: type[S]) -> S:
    """Make an instance with every member filled in, optional ones too, but none that may be unset."""
    return msgspec.convert(_value(inspect.type_info(struct), ""), struct)


def _value(declared: inspect.Type, name: str) -> Any:
    match declared:
        case inspect.Metadata():
            return _value(declared.type, name)
        case inspect.StructType():
            # What may be unset was added after the first release: the events of that one do not have it.
            unset = [f for f in declared.fields if not f.required and f.default is f.default_factory is NODEFAULT]
            kept = [field for field in declared.fields if field not in unset]
            return {field.encode_name: _value(field.type, field.encode_name) for field in kept}
        case inspect.UnionType():
            return _value(next(member for member in declared.types if not isinstance(member, inspect.NoneType)), name)
        case inspect.ListType() | inspect.VarTupleType():
            return [_value(declared.item_type, name)]
        case _:
            return _scalar(declared, name)


def _scalar(declared: inspect.Type, name: str) -> Any:
    match declared:
        case inspect.LiteralType():
            return declared.values[0]
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 1_800_000_000 if name.endswith("_at") or name == "at" else 7
        case inspect.StrType():
            return "0.25" if "usd" in name else f"{name}_1"
    raise AssertionError(declared)
