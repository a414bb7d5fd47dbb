"""The shapes that bodies of every area are made of: a strict object, a whole number, a time, an identifier."""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.errors import ErrorBody

S = TypeVar("S", bound=msgspec.Struct)

SAFE_INTEGER = 9007199254740991

Epoch = Annotated[int, Meta(ge=0, description="Epoch seconds, UTC.")]
EvidenceSource = Literal["local", "provider_cloud"]
QuestionSource = Literal["local", "provider_cloud", "copy"]
"""Where the rows of a question come from. The copy of our own records decides nothing (G-200)."""
"""Where evidence was read: in our own records, or at the customer's provider (G-183)."""
RequiredEvidence = Literal["provider_cloud"]
"""The source that the settings of a project may demand of a proof."""
CiHost = Literal["github", "gitlab"]
"""The host whose claims the tokens of an issuer of CI have."""
Role = Literal["owner", "member", "auditor"]
"""What a person is in a project."""
DefaultLevel = Literal["error", "info"]
"""The level of a native record without a level, an exception and a stack (G-191)."""
HistoryCheck = Literal["confirmed", "contradicted", "unconfirmed"]
SafeEpoch = Annotated[int, Meta(ge=0, le=SAFE_INTEGER, description="Epoch seconds, UTC.")]
Identifier = Annotated[str, Meta(min_length=8, max_length=200, pattern=patterns.IDENTIFIER)]


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object that takes exactly its declared keys."""


ONE_OF = "one_of"
"""Where the annotation of such a member names its types."""
ALTERNATIVES: list[type[msgspec.Struct]] = []
"""Objects that stand in a body only beside others: the document has to be told of each."""
COMPONENT = "#/components/schemas/"
"""Where a reference to a component begins."""


def one_of(*kinds: type[msgspec.Struct], null: bool = False, deep: bool = False) -> Meta:
    """Annotate a member typed Any: it is one of several objects, or null.

    msgspec tells the objects of a union apart by a tag alone, and many closed shapes have no room for one. Where all
    have the same tag, the schema names it. `deep`: they differ only inside of their members, where linters of `oneOf`
    do not look.
    """
    ALTERNATIVES.extend(kinds)
    reference = {kind: f"{COMPONENT}{kind.__name__}" for kind in kinds}
    shown: list[dict[str, Any]] = [{"$ref": reference[kind]} for kind in kinds]
    schema: dict[str, Any] = {"anyOf" if deep else "oneOf": [*shown, {"type": "null"}] if null else shown}
    [tag, *others] = {kind.__struct_config__.tag_field for kind in kinds}
    if tag is not None and not others:
        mapping = {str(kind.__struct_config__.tag): reference[kind] for kind in kinds}
        schema["discriminator"] = {"propertyName": tag, "mapping": mapping}
    return Meta(extra_json_schema=schema, extra={ONE_OF: kinds})


@cache
def _copied(kind: type[msgspec.Struct], computed: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[[object], Any]]:
    required = (field.name for field in msgspec.structs.fields(kind) if field.required)
    names = tuple(name for name in required if name not in computed)
    assert len(names) > 1, "nothing to copy"
    return names, attrgetter(*names)


def shape_from(kind: type[S], source: object, /, **computed: Any) -> S:
    """Make a shape of another one, such as a row: its required members of the same names, and what is computed.

    Raises AttributeError when a member is in neither. `msgspec.convert` would check each value against the bounds of
    the wire again, which a row of an older release need not meet.
    """
    names, values = _copied(kind, tuple(computed))
    return kind(**dict(zip(names, values(source), strict=True)), **computed)


def exactly(*items: str) -> Meta:
    """Annotate an array of texts: these, in this order. Generators read a constant here for that of each place."""
    told = [{"type": "string", "enum": [item]} for item in items]
    return Meta(extra_json_schema={"prefixItems": told, "minItems": len(items), "maxItems": len(items)})


# Who acts with a credential that CI was given for the token of a run (G-171).


class WorkflowRun(msgspec.Struct, frozen=True):
    """The run of a workflow that acts by a CI binding. Its issuer vouches for everything but the binding."""

    binding_id: str
    issuer: str
    repository: str
    ref: str
    workflow: str
    environment: str | None
    run_id: str


# What every paged list takes (G-005).


class PageQuery(msgspec.Struct, frozen=True):
    """The number of items, and the cursor of the previous page."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Annotated[str, Meta(min_length=1, max_length=500)] | None = None


# Parameters of operations with a late answer: it comes when something changes (G-167).

MOST_SECONDS = 60


class WaitQuery(msgspec.Struct, frozen=True):
    """Seconds to wait for a change, and the revision known to the caller."""

    wait: Annotated[int, Meta(ge=1, le=MOST_SECONDS)] | None = None
    revision: Annotated[int, Meta(ge=0)] | None = None


# Parameter of reads of one object that is also shown as it was.

AS_OF = patterns.form(
    "[rpt]:(0|[1-9][0-9]{0,14})", "such as r:12 (a revision), p:345 (a position in the log) or t:1700000000"
)


class AsOfQuery(msgspec.Struct, frozen=True):
    """When: a revision of the object's stream, a position in the log, or a second since the epoch. Absent: now."""

    as_of: (
        Annotated[
            str,
            Meta(
                pattern=AS_OF,
                description=(
                    "Show the object as it was, to owners: at a revision of its stream (r:12), at a position in the "
                    "log (p:345), or at the end of a second since the epoch (t:1700000000)."
                ),
            ),
        ]
        | None
    ) = None


# Wire contract of many records in one body: the result of each (G-143).

MAX_BATCH_BYTES = 1048576
MAX_BATCH_ITEMS = 1000
MAX_ITEM_ID = 255

ItemId = Annotated[str, Meta(min_length=1, max_length=MAX_ITEM_ID, pattern="^[!-~]+$")]


class ItemName(msgspec.Struct, frozen=True):
    """The name of an item: its repeats within 24 hours are one with it. Without one it has no repeats."""

    id: ItemId | None = None


class ItemResult(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The result of one item, as if it had been sent alone.

    `index` is its place in the body, from 0 on. `status` is 202 when it is stored, and then `id` names its record.
    `replayed`: the item was already stored. `case_id` names the case of an error. `adjusted` is the number of members
    that were changed before the item was stored (G-133).
    """

    id: str | msgspec.UnsetType = msgspec.UNSET
    index: int
    status: int
    case_id: str | msgspec.UnsetType = msgspec.UNSET
    adjusted: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    replayed: bool = False
    error: ErrorBody | msgspec.UnsetType = msgspec.UNSET


class BatchAccepted(msgspec.Struct, frozen=True):
    """The answer to a batch. Every accepted item is stored. `accepted` and `refused` add up to the items."""

    items: list[ItemResult]
    accepted: int
    refused: int
    next_action: str
