"""One request after all checks, as a handler sees it, and the one way from a handler to the event store."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Protocol, TypeAlias, TypeVar

from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.types import HTTPScope

from schemas.kernel.errors import CATALOGUE
from schemas.kernel.shape import AsOfQuery, WaitQuery
from service.auth.authority import Principal, PrincipalKind, authority
from service.auth.refusals import ReauthenticationRequired
from service.eventstore.declare.commands import (
    Answer,
    Command,
    Decide,
    Intent,
    Origin,
    Outcome,
    Refused,
    StoredAnswer,
    Unit,
    retry_moved,
)
from service.fairness.bodies import FOREIGN, SMALL, Shares
from service.fairness.offload import Apart, Offload
from service.history.as_of import Past, RowSource, parse_mark
from service.http.declare.endpoint import Operation
from service.http.declare.forms import BodyReader, Form
from service.http.declare.headers import conditional, head_of
from service.http.waiting.waits import RevisionWait
from service.ingest.items import AS_SENT, Adjustments, Sender
from service.services import Services
from statemachines.kernel.machine import Moved, Rejection
from statemachines.runs.claim import Holder

R = TypeVar("R")
T = TypeVar("T")

Replay = Callable[[Unit, StoredAnswer], Answer]


class ReadUpload(Protocol):
    """A body that is read a piece at a time. `found` is the search for its key, None for a key in the head."""

    found: Any

    @property
    def small(self) -> bool:
        """Whether it is worked on in the event loop."""


class Tools(Protocol):
    """What the edge lends to a call."""

    apart: Apart
    turns: Shares
    offload: Offload

    def charge(self, records: int) -> Mapping[str, str]:
        """Charge further records of the request. Returns headers, or raises RateLimited."""

    def charge_in(self, name: str, owner: str | None = None) -> None:
        """Charge one to another class of limits, of the caller or of an owner. Raises RateLimited."""

    async def decode_one(self, raw: bytes) -> tuple[Any, Any, bytes, Adjustments]:
        """Read one record out of several. Raises InvalidPayload."""

    async def readmit(self) -> None:
        """Admit the caller once more. Raises as admission."""

    def read_pieces(self, upload: ReadUpload, reader: BodyReader[T]) -> AsyncIterator[T]:
        """Read an upload a piece at a time."""


@dataclass(slots=True)
class CheckedCall:
    """One request after all checks: authenticated, visible, not fenced, validated."""

    scope: HTTPScope  # of ASGI
    operation: Operation
    services: Services
    _tools: Tools
    principal: Principal
    request_id: str
    scope_id: str | None  # the project in scope: of the path, the subject or the credential; None without one
    raw_body: bytes
    if_match: str | None  # the tag with its quotes, already checked for form
    key: str | None
    request_hash: str  # hex SHA-256 of the canonical body: what makes two requests with one key the same
    adjustments: Adjustments = AS_SENT  # of the body, where the operation has it adjusted
    arriving: AsyncIterator[bytes] | None = None  # the body, of an operation that streams
    upload: ReadUpload | None = None  # the body, of an operation that is piecewise
    subject: Any = None  # the subject's row as read before the command; relations in it never change
    headers: dict[str, str] = field(default_factory=dict)  # extra response headers
    reads_head: bool = False  # whether parameters and headers are being read: what is refused then is no body
    form: Form | None = None  # of the body, when it is not that of one record: then `data` is None
    records: Counter[tuple[str, int]] | None = None  # those of a request that has several, by kind and status
    waiting: RevisionWait | None = None  # of a request that may wait for a change
    known_as: str = ""  # what records of the request call it; "": its method and path
    locked: Rejection | None = None  # what a new command is refused with, once it is known that its object exists

    @property
    def project_id(self) -> str:
        """The project in scope, of an operation that has one."""
        assert self.scope_id is not None, "this operation is outside of any project"
        return self.scope_id

    @property
    def user_id(self) -> str:
        """The person whose key or session is used, of an operation for people."""
        assert self.principal.user_id is not None, "this operation is not for people alone"
        return self.principal.user_id

    def rows(self, params: AsOfQuery) -> RowSource:
        """What the one object is read from: the read models, or the past where the caller asks for it."""
        store = self.services.store
        return store if params.as_of is None else Past(store, parse_mark(params.as_of))

    def ask_fresh(self) -> None:
        """Ask for a fresh sign-in, because of the body alone. Operations declared `fresh` ask always.

        Raises ReauthenticationRequired for a session without it.
        """
        self.operation = replace(self.operation, who=replace(self.operation.who, fresh=True))
        if self.principal.kind is PrincipalKind.SESSION and not self.principal.fresh:
            raise ReauthenticationRequired

    @property
    def runner(self) -> Holder | None:
        """The runner that asks: what its credential says, never what it sends. None for everybody else."""
        if self.principal.kind is not PrincipalKind.RUNNER:
            return None
        assert self.principal.automation_id is not None
        assert self.principal.runner_id is not None
        return Holder(self.principal.automation_id, self.principal.runner_id)

    def header(self, name: str) -> str | None:
        """The value of a request header by its lower-case name."""
        return head_of(self.scope).headers.get(name)

    @property
    def sender(self) -> Sender:
        """Who sends a record, of an operation that takes a DSN."""
        who = self.principal
        public = who.kind is PrincipalKind.PUBLIC_DSN
        return Sender(
            self.project_id,
            who.secret_hash,
            self.request_id,
            self.key,
            self.request_hash,
            who.account,
            public,
            who.default_level,
            who.frame_variables,
        )

    async def listen(self, stream: str, params: WaitQuery) -> None:
        """Begin to hear of a stream, for a caller with a wait. Comes before all reads of it.

        Raises RateLimited when too many wait, and ReadNotDone while the log cannot be read.
        """
        if self.waiting is not None:
            await self.waiting.listen(self.services.follower, self.principal.tenant, stream, params)

    def saw(self, revision: int) -> None:
        """Note the revision of the answer: a waiting caller with the same one is sent a later answer.

        An answer without any is sent at once.
        """
        if self.waiting is not None:
            self.waiting.saw(revision)

    async def readmit(self) -> None:
        """Admit the caller once more, for an answer still on its way. Raises as admission does."""
        await self._tools.readmit()

    def take_tokens(self, count: int) -> None:
        """Charge so many records to the caller beside the one of the request itself. Raises RateLimited (G-143)."""
        if count:
            self.headers.update(self._tools.charge(count))

    def take_token_of(self, name: str, owner: str | None = None) -> None:
        """Charge one in another class of limits, to the caller or to an owner. Raises RateLimited."""
        self._tools.charge_in(name, owner)

    async def decode_one(self, raw: bytes) -> tuple[Any, Any, bytes, Adjustments]:
        """Read one record out of several, as if it had come alone.

        Returns the declared type, the plain value, and the text as it is taken with what was adjusted in it (G-133).
        Raises InvalidPayload.
        """
        return await self._tools.decode_one(raw)

    @property
    def rests(self) -> bool:
        """Whether `turn` would wait for the end of the caller's rest (P25)."""
        return self._tools.turns.rests(self.principal.tenant)

    async def turn(self, size: int, *, foreign: bool = False) -> None:
        """Wait until so many bytes may be worked on in the event loop (P25); those of a `foreign` form are dearer.

        Raises CommandNotDone when the caller has too much of that.
        """
        cost = FOREIGN * size if foreign and size > SMALL else size
        await self._tools.turns.take_part(self.principal.tenant, cost, self._tools.apart.company)

    def work_on_pieces(self, reader: BodyReader[T]) -> AsyncIterator[T]:
        """Have the body of a piecewise operation read, a piece at a time, and an empty one at its end.

        Each time it is asked for, the body begins anew. The reader is closed with the body. Raises InvalidPayload,
        PayloadTooLarge, and the reader's own errors.
        """
        assert self.upload is not None, "the operation is piecewise"
        return self._tools.read_pieces(self.upload, reader)

    async def work_on_body(self, work: Callable[[], T]) -> T:
        """Carry out a pure piece of work on the body: apart when the body is large (P25). Raises what it raises."""
        return await self.work_on(len(self.raw_body), work)

    async def work_on(self, size: int, work: Callable[[], T]) -> T:
        """Carry out a pure piece of work on so many bytes: apart when they are many (P25). Raises what it raises."""
        return await self._tools.apart.run_if_large(self.principal.tenant, size, work)

    async def work_apart(self, work: Callable[[], T]) -> T:
        """Carry out a pure piece of work that is dear for its size apart. Raises what it raises."""
        return await self._tools.apart.run(self.principal.tenant, work)

    async def work_once(self, name: Hashable, work: Callable[[], T]) -> T:
        """Carry out a pure piece of work apart, once for all its callers of the same time. Raises its errors.

        `name` says the result, which is the same for all callers. They keep it.
        """
        return await self._tools.apart.run_once(self.principal.tenant, name, work)

    async def once(self, function: Callable[..., T], *args: Hashable) -> T:
        """The result of a function with a cache and few arguments. The first call is made apart."""
        return await self._tools.apart.call_once(self.principal.tenant, function, *args)

    async def offload(self, function: Callable[..., bytes], *args: Any) -> bytes:
        """Call a function of a module in another process: it holds the interpreter. Raises as Offload.call."""
        return await self._tools.offload.call(self.principal.tenant, function, *args)

    async def carry_out(
        self, intent: Intent[T], render: Callable[[T], Answer], *, on_replay: Replay | None = None
    ) -> Outcome:
        """Carry out an intent in the name of the caller, and answer with what `render` makes of its result.

        The answer is made in the unit, so that it is stored with the command: `render` does no I/O. Raises what the
        store raises, the Rejection of the decision, and Moved when what the intent had looked up is out of date.
        """
        return await self.services.store.execute(self._command(intent, _rendered(intent, render), on_replay))

    async def carry_out_part(
        self, name: str, intent: Intent[T], render: Callable[[T], Answer], correlation_id: str
    ) -> Outcome:
        """Carry out one of several intents of a request, in a unit and under a key of its own.

        A repeat of the request is given what was answered for the part. Raises as `carry_out`.
        """
        command = self._command(intent, _rendered(intent, render), None)
        origin = replace(command.origin, correlation_id=correlation_id)
        return await self.services.store.execute(replace(command, origin=origin, key=f"{self.key}:{name}"))

    async def carry_out_on(
        self,
        latest: R,
        read_again: Callable[[], Awaitable[R]],
        command: Callable[[R], Intent[Answer]],
        *,
        on_replay: Replay | None = None,
    ) -> Outcome:
        """Carry out the intent that `command` makes from what was read, as `latest` is.

        It is read again, and the intent made again, whenever it turns out to be out of date. Raises as `carry_out`, and
        CommandNotDone when it is out of date each time.
        """
        read: list[R] = [latest]

        async def attempt() -> Outcome:
            try:
                return await self.carry_out(command(read[-1]), _as_it_is, on_replay=on_replay)
            except Moved:
                read.append(await read_again())
                raise

        return await retry_moved(attempt)

    def _command(self, intent: Intent[T], decide: Decide, on_replay: Replay | None) -> Command:
        """Put the intent under its gates and its principal's authority."""
        shown = authority(self.principal, self.scope_id, self.operation)
        exclusive = (self._gate(intent.fence), *intent.drains) if intent.fence else ()
        _, malformed = conditional(head_of(self.scope), self.operation.fencing.if_match)
        fault = malformed or self.locked
        origin = Origin(
            actor_kind=self.principal.kind.value,
            actor_id=self.principal.id,
            operation=self.known_as or f"{self.operation.method} {self.scope['path']}",
            request_id=self.request_id,
            correlation_id=self.request_id,
        )
        return Command(
            origin=origin,
            decide=decide if fault is None else _after_existence(decide, fault),
            streams=intent.streams,
            reads=intent.reads,
            lookups=[*shown.lookups, *intent.lookups],
            gates=[gate for gate in (*shown.gates, *intent.gates) if gate not in exclusive],
            exclusive=exclusive,
            saves=intent.saves,
            tenant=self.principal.tenant,
            weight=len(self.raw_body),
            authorize=shown.check,
            key=self.key,
            request_hash=self.request_hash,
            on_replay=on_replay,
        )

    def _gate(self, fence: bool | str) -> str:
        return fence if isinstance(fence, str) else self.project_id


Call: TypeAlias = NamedDependency[SkipValidation[CheckedCall]]
"""The call of a handler, which Litestar hands over under the name `call`."""


def _rendered(intent: Intent[T], render: Callable[[T], Answer]) -> Decide:
    """Decide an intent, and make the answer in its unit."""

    def decide(unit: Unit) -> Answer | Refused:
        result = intent.decide(unit)
        return result if isinstance(result, Refused) else render(result)

    return decide


def _as_it_is(answer: Answer) -> Answer:
    return answer


def _after_existence(decide: Decide, fault: Rejection) -> Decide:
    """Refuse a bad If-Match or a quota used up, but not before the decision had its say on existence (G-007).

    The decision runs with a tag without a match. A refused unit leaves no trace.
    """

    def refuse(unit: Unit) -> Answer:
        try:
            decide(unit)
        except Rejection as rejection:
            if CATALOGUE[rejection.code].status == HTTPStatus.NOT_FOUND:
                raise
        raise fault

    return refuse
