"""Many records in one body, each taken as if it had come alone (G-143).

The body is cut into its items before anything in it is looked at, so that one item that is no JSON, or odd, is a matter
of that item. Items are read in the event loop a few at a time, as large bodies are (P25), and those that have the form
of a record go into the intake together, as many as a flush may hold.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from schemas.kernel.errors import ErrorBody
from schemas.kernel.shape import MAX_BATCH_ITEMS, BatchAccepted, ItemName, ItemResult
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer, KeyReused, Outcome
from service.fairness.turns import CommandNotDone
from service.http.answer.errors import Failure, ItemIdReused, TooManyItems, failure_of, let_go, log_failure
from service.http.declare.call import Call
from service.http.declare.forms import LINES
from service.ingest.foreign.common import first_items
from service.ingest.intake import BATCH_BYTES
from service.ingest.items import Adjustments, Item, Result, Sender
from statemachines.kernel.canonical import canonical_sha256

M = TypeVar("M")
Take = Callable[[Sender, Any, bytes, Adjustments], Item]

AT_ONCE = 16 * 1024
"""Bytes of items that are read before others have their turn."""
MOST_AT_ONCE = 1000
"""Items that go into the intake together: read, each of them is several times what it was in the body."""
BESIDE = 512
"""Bytes that an item counts for beside its own: to read a small one takes time as well."""
MOST_FAULTS = 5  # of each sort that the result of an item names
NEXT_FOR_ALL = "Nothing to do."
NEXT_FOR_SOME = "Retry the items with a retryable error, and correct the others."

_SPACE = b" \t\r\n"
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{\]},]', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

_LINE = re.compile(rb"[^ \t\r\n][^\n]*+")
_name_of = msgspec.json.Decoder(ItemName).decode
_told = msgspec.json.Decoder(dict[str, Any]).decode


class ItemGroup(NamedTuple):
    """Items that are read before others have their turn: their indexes, and how many bytes they count for."""

    indexes: range
    size: int


def groups_of(sizes: Iterable[int]) -> Iterable[ItemGroup]:
    """Put items of so many bytes together, a few at a time."""
    first = end = size = 0
    for own in sizes:
        end += 1
        size += BESIDE + own
        if size >= AT_ONCE:
            yield ItemGroup(range(first, end), size)
            first, size = end, 0
    if first < end:
        yield ItemGroup(range(first, end), size)


class Parts(Generic[M]):
    """The items of a body, which go into the intake a part at a time.

    So few of them are in memory at once, and none waits for its deadline while its sender rests. Each has a mark;
    `hear` is told of each part the marks and the results, and says how many of them were refused.
    """

    def __init__(
        self, call: Call, hear: Callable[[Sequence[M], Sequence[Result]], int], *, foreign: bool = False
    ) -> None:
        self.refused = 0
        self._call = call
        self._hear = hear
        self._foreign = foreign
        self._marks: list[M] = []
        self._items: list[Item] = []
        self._size = 0

    def add(self, mark: M, item: Item) -> None:
        """Add an item to the part."""
        self._marks.append(mark)
        self._items.append(item)
        self._size += item.size

    async def turn(self, size: int) -> None:
        """Wait until so many bytes of items may be read; what is there is stored first when it is much, or time to.

        Raises as `Call.turn` and `hear`.
        """
        if self._items and (len(self._items) >= MOST_AT_ONCE or self._size >= BATCH_BYTES or self._call.rests):
            await self.store()
        await self._call.turn(size, foreign=self._foreign)

    async def store(self) -> None:
        """Store what is there, and wait for it. Raises as `hear`."""
        marks, items = self._marks, self._items
        self._marks, self._items, self._size = [], [], 0
        self.refused += self._hear(marks, await self._call.services.intake.submit_all(items))


def cut(raw: bytes, form_name: str) -> Sequence[bytes]:
    """Cut a body into the texts of its items. Raises InvalidPayload, and TooManyItems for too many."""
    texts = _lines(raw) if form_name == LINES.name else _array(raw)
    if not texts:
        raise InvalidPayload("The batch is empty.", invalid=[("", "the body must hold at least one item")])
    return texts


def _lines(raw: bytes) -> Sequence[bytes]:
    """The lines that hold something."""
    texts: list[bytes] = []
    for line in _LINE.finditer(raw):
        _check_number(len(texts) + 1)
        texts.append(line[0])
    return texts


def _check_number(items: int) -> None:
    """Raise TooManyItems before more items are there than a body may hold: each takes more than its bytes."""
    if items > MAX_BATCH_ITEMS:
        raise TooManyItems(MAX_BATCH_ITEMS)


def _array(raw: bytes) -> Sequence[bytes]:
    try:
        texts = first_items(raw, MAX_BATCH_ITEMS + 1)
    except (ValueError, RecursionError):  # One of the items may be at fault, and the others not.
        return _cut_slowly(raw.strip(_SPACE))
    _check_number(len(texts))
    return texts


def _cut_slowly(raw: bytes) -> Sequence[bytes]:
    """Cut a text that is no JSON where the commas of an array would be.

    Raises InvalidPayload when there is none, and TooManyItems.
    """
    depth, start, texts = 0, 1, list[bytes]()
    for token in _TOKENS.finditer(raw):
        first = raw[token.start()]
        if first == ord(",") and depth == 1:
            _check_number(len(texts) + 2)
            texts.append(raw[start : token.start()])
            start = token.end()
        depth += _STEPS.get(first, 0)
        if depth <= 0 and token.end() != len(raw):
            depth = -1  # It ends before the text does.
            break
    if depth or not raw.startswith(b"[") or not raw.endswith(b"]"):
        reason = "the body must be one JSON array"
        raise InvalidPayload("The body is not acceptable JSON.", invalid=[("", reason)])
    return [*texts, raw[start:-1]]


class _Heard:
    """What was heard of each item; `named` are the indexes of those that have an id of their own."""

    def __init__(self, size: int) -> None:
        self.results: list[Result | None] = [None] * size
        self.named: set[int] = set()

    def hear(self, indexes: Sequence[int], told: Sequence[Result]) -> int:
        """Take in what became of some items; returns how many failed."""
        for index, result in zip(indexes, told, strict=True):
            self.results[index] = ItemIdReused() if index in self.named and isinstance(result, KeyReused) else result
        return sum(isinstance(result, Exception) for result in told)


async def record_several(call: Call, kind: str, take: Take) -> Answer:
    """Store the items of a body, and answer when all that are accepted are stored (G-143).

    `kind` is what they count as. Raises InvalidPayload and TooManyItems for what is no batch, RateLimited when
    the caller may not send so many now; and, when nothing was accepted for one and the same passing reason, that.
    """
    assert call.form is not None
    raw, form_name = call.raw_body, call.form.name
    texts = await call.work_on_body(lambda: cut(raw, form_name))
    call.take_tokens(len(texts) - 1)
    heard = _Heard(len(texts))
    parts = Parts(call, heard.hear)
    with suppress(CommandNotDone):  # What has not had its turn by then is told so; the others may be stored.
        for group in groups_of(map(len, texts)):
            await parts.turn(group.size)
            for index in group.indexes:
                try:
                    item, has_id = await _read(call, index, texts[index], take)
                    heard.named.update([index] * has_id)
                    parts.add(index, item)
                except InvalidPayload as refusal:
                    let_go(refusal)  # A thousand of them would hold all that was looked at for each.
                    refusal.__context__ = None
                    heard.results[index] = refusal
    await parts.store()
    return answer_of(call, kind, [CommandNotDone() if result is None else result for result in heard.results])


async def _read(call: Call, index: int, text: bytes, take: Take) -> tuple[Item, bool]:
    """Read an item, and say whether it has an id. Raises InvalidPayload.

    It is known by its id, else by its place under the key of the request.
    """
    body, value, raw, adjustments = await call.decode_one(text)
    sender = call.sender
    try:
        name = _name_of(raw).id
    except msgspec.ValidationError:
        reason = "must be a text of 1 to 255 visible ASCII characters, or absent"
        raise InvalidPayload("The item is not well-formed.", invalid=[("id", reason)]) from None
    has_id = name is not None
    if name is None and sender.key is not None:
        name = f"{sender.key[:240]}:{index}"
    if name is not None:
        value.pop("id", None)
        sender = sender._replace(key=name, request_hash=canonical_sha256(value))
    return take(sender, body, raw, adjustments), has_id


def answer_of(call: Call, kind: str, results: Sequence[Result]) -> Answer:
    """Say what became of each record, and count them. Raises the one passing reason for which none was accepted."""
    failures = [failure_of(result) if isinstance(result, Exception) else None for result in results]
    statuses = [HTTPStatus.ACCEPTED if failure is None else failure.status for failure in failures]
    call.records = Counter((kind, status) for status in statuses)
    raise_common(results, failures)
    log_failures(call, results, failures)
    items = [
        _result(index, result, failure, call.request_id)
        for index, (result, failure) in enumerate(zip(results, failures, strict=True))
    ]
    refused = len(failures) - failures.count(None)
    return Answer(
        HTTPStatus.ACCEPTED,
        BatchAccepted(items, len(items) - refused, refused, NEXT_FOR_SOME if refused else NEXT_FOR_ALL),
    )


def raise_common(results: Sequence[Result], failures: Sequence[Failure | None]) -> None:
    """Raise why nothing was accepted, when that is no fault of the records: then it is the answer to the request."""
    codes = {failure.code if failure is not None else "" for failure in failures}
    if len(codes) == 1 and failures[0] is not None and failures[0].status != HTTPStatus.BAD_REQUEST:
        first = results[0]
        if isinstance(first, Exception) and failures[0].code != "idempotency_key_reused":
            raise first


def log_failures(call: Call, results: Sequence[Result], failures: Sequence[Failure | None]) -> None:
    """Log what a person has to look at, each sort once."""
    told = {failure.code: (result, failure) for result, failure in zip(results, failures, strict=True) if failure}
    for error, failure in told.values():
        if isinstance(error, Exception):
            log_failure(error, failure, call.operation.operation_id)


def settle(call: Call, kinds: Sequence[str], results: Sequence[Result]) -> int:
    """Count what became of records of these kinds; returns how many were refused for good.

    Raises the first that may pass: then the whole request may be repeated.
    """
    failures = [failure_of(result) if isinstance(result, Exception) else None for result in results]
    assert call.records is not None
    statuses = (HTTPStatus.ACCEPTED if failure is None else failure.status for failure in failures)
    call.records.update(zip(kinds, statuses, strict=True))
    log_failures(call, results, failures)
    refused = 0
    for result, failure in zip(results, failures, strict=True):
        if isinstance(result, Exception) and failure is not None:
            if failure.status != HTTPStatus.BAD_REQUEST:
                raise result
            refused += 1
    return refused


def _result(index: int, result: Result, failure: Failure | None, request_id: str) -> ItemResult:
    if failure is None:
        assert isinstance(result, Outcome)
        answer = _told(result.body)
        return ItemResult(
            id=answer["id"],
            index=index,
            status=HTTPStatus.ACCEPTED,
            case_id=answer.get("case_id") or msgspec.UNSET,
            adjusted=answer.get("adjusted", msgspec.UNSET),
            replayed=result.replayed,
        )
    error = ErrorBody(
        failure.code,
        failure.message,
        failure.next_action,
        request_id,
        failure.retryable,
        # The schema of the body would be the same a thousand times.
        {
            name: value[:MOST_FAULTS] if isinstance(value, list) else value
            for name, value in failure.details.items()
            if name != "request_body_schema"
        },
    )
    return ItemResult(index=index, status=failure.status, error=error)
