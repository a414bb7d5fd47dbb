"""A client that repeats another tenant's requests and, before each of its own, tries the other's ids.

Two tenants that take the same tour send the same requests and differ in what the service named for them. Where the
intruder's request names something of its own, a variant names the other tenant's thing instead: one of them, some, or
all. Right after the variant goes out its control, which names things that never were. The two must be the same answer.
"""

from __future__ import annotations

import random
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import httpx2

from service.auth import secrets as auth_secrets
from service.auth.authority import PrincipalKind as Kind
from service.auth.secrets import SecretKind
from service.http.declare.endpoint import Operation
from tests.support import seen
from tests.support.tenants.recording import ID, Exchange, Got, Place, Recorder, Sent

ABSENT = {
    "alert_not_found",
    "approval_not_found",
    "case_not_found",
    "claim_not_found",
    "credential_not_found",
    "delivery_not_found",
    "destination_not_found",
    "event_not_found",
    "grant_not_available",
    "not_found",
    "project_not_found",
    "publication_not_found",
    "run_not_found",
    "trigger_receipt_not_found",
    "webhook_not_found",
}
WRONG_KIND = {"principal_not_allowed"}
TENANT_KINDS = frozenset({Kind.KEY, Kind.RUNNER, Kind.CI, Kind.DSN})
IDLE_HEADERS = {"date", "x-service-request-id"}
RUN = re.compile(r"[0-9A-Za-z]{8,}")
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Attempt:
    """A request for another tenant's object, its answer, and the answer for an object that never existed."""

    what: str
    sent: Sent
    names: Mapping[Place, str]  # of the other tenant, as they stand in it
    nobodys: Mapping[Place, str]  # those that stand in their places in the control
    got: Got
    control: Got | None

    @property
    def ids(self) -> dict[Place, str]:
        """The ids it asks for, where the service looks them up. A filter of a list only selects."""
        return {place: name for place, name in self.names.items() if place[0] != "query" and ID.fullmatch(name)}

    def problems(self) -> Iterator[str]:
        """Faults of the answer by itself."""
        where = f"{self.what}: {self.sent.operation.operation_id} with {sorted(self.names.items(), key=str)}"
        if self.got.status >= 500:
            yield f"{where} failed: {self.got.status} {self.got.text}"
        if "idempotent-replayed" in self.got.headers:
            yield f"{where} was answered from somebody's record"
        if self.control is not None and self.meaning(self.got, self.names) != self.meaning(self.control, self.nobodys):
            yield f"{where} is told from what never was:\n{self.got}\n{self.control}"
        if self.ids and (self.got.status < 400 or self.got.error["code"] not in ABSENT | WRONG_KIND):
            yield f"{where} was answered with {self.got.status} {self.got.text}"

    def leaks(self, words: set[str]) -> list[str]:
        """Values of the other tenant in the answer, except those that the sender knew already."""
        known = repeatable(self.names)
        return [word for word in words if word in self.got.whole and not any(word in name for name in known)]

    def meaning(self, got: Got, names: Mapping[Place, str]) -> tuple[Any, ...]:
        """The content of an answer to a request with such names.

        Names that it may repeat are left out, so are the request's id and what a success created.
        """
        text = got.text.replace(got.headers.get("x-service-request-id", "-"), "<request>")
        for name in repeatable(names):
            text = text.replace(name, "<name>")
        headers = sorted((name, value) for name, value in got.headers.items() if name not in IDLE_HEADERS)
        if got.status < 400 and not self.ids:
            text = NUMBER.sub("<n>", RUN.sub("<v>", text))
            headers = [name for name, _ in headers]
        return got.status, headers, text


def repeatable(names: Mapping[Place, str]) -> list[str]:
    """Those of the names in a request that its answer may repeat: its sender knew them. No answer repeats an id."""
    return [name for name in names.values() if not ID.fullmatch(name)]


def scrambled(value: str) -> str:
    """A value of the same form that was never issued. Prefixes stay: they are not secret."""

    def other(found: re.Match[str]) -> str:
        letters = sorted(set(found[0]))
        return "".join(random.choice(letters) for _ in found[0])

    return RUN.sub(other, value)


def asks_as_tenant(operation: Operation) -> bool:
    """Whether the secret of a tenant decides what the operation shows: not where anybody or the operator calls."""
    return bool(operation.who.principals & TENANT_KINDS)


class Intruder(Recorder):
    """The transport of the second tenant. `trail` holds the requests and answers of the first one.

    `grown` tells which streams have grown since it was last asked; a refused attempt must not grow any.
    """

    def __init__(self, trail: Sequence[Exchange], told: set[str], grown: Callable[[], Counter[str]]) -> None:
        super().__init__()
        self.trail = trail
        self.told = told
        self.attempts: list[Attempt] = []
        self.harm: list[str] = []
        self._grown = grown
        self._client = seen.client("http://unused")

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Try all variants of the request at this place of the tour, then send the intruder's own."""
        theirs, own = self.trail[len(self.exchanges)].sent, Sent.of(request)
        assert theirs.operation is own.operation, "the two tours part"
        if asks_as_tenant(own.operation):
            self._client.base_url = httpx2.URL(f"{request.url.scheme}://{request.url.netloc.decode()}")
            self._try_all(theirs, own)
        return super().handle_request(request)

    def _try_all(self, theirs: Sent, own: Sent) -> None:
        before = self._grown()
        foreign = self.foreign(theirs, own)
        ids = {place: name for place, name in foreign.items() if ID.fullmatch(name)}
        asked_for = [place for place in ids if place[0] != "query"]
        for size in range(1, len(ids) + 1):
            for places in combinations(ids, size):
                if set(places) & set(asked_for):
                    self.attempt("own request", own, {place: ids[place] for place in places}, fresh_key=True)
        if asked_for:
            assert own.secret is not None
            self.attempt("verbatim", theirs.by(own.secret), self.names_in(theirs))
        if (grown := self._grown()) != before:
            self.harm.append(f"{own.operation.operation_id}: {grown - before}")
        # What follows may succeed in the intruder's own project: these only say something, or sort out.
        for place, name in foreign.items():
            if place not in asked_for:
                self.attempt("own request", own, {place: name}, fresh_key=True, control=place != ("query", "cursor"))

    def foreign(self, theirs: Sent, own: Sent) -> dict[Place, str]:
        """Where the two requests name different things: the other tenant's names, by place."""
        mine = own.values()
        return {place: name for place, name in self.names_in(theirs).items() if place in mine and mine[place] != name}

    def names_in(self, theirs: Sent) -> dict[Place, str]:
        """Values in a request that its sender has from the service."""
        return {place: value for place, value in theirs.values().items() if value in self.told and RUN.search(value)}

    def attempt(
        self, what: str, base: Sent, names: Mapping[Place, str], *, fresh_key: bool = False, control: bool = True
    ) -> Attempt:
        """Send a request with these names of the other tenant, and the same with names of nobody."""

        def ask(values: Mapping[Place, str]) -> Got:
            sent = base.with_values(values)
            if fresh_key and "idempotency-key" in sent.headers:
                sent = sent.with_header("idempotency-key", secrets.token_hex(8))
            response = self._wire.handle_request(sent.build(self._client))
            response.read()
            return Got.of(response)

        nobodys = {place: scrambled(name) for place, name in names.items() if control}
        made = Attempt(what, base, dict(names), nobodys, ask(names), ask(nobodys) if nobodys else None)
        self.attempts.append(made)
        return made

    def replay(self, presented: Mapping[str, str]) -> None:
        """Send the whole trail again, verbatim, with every one of these secrets.

        What names nothing of its sender goes out with the secret of the same kind only: there it is an ordinary
        request of the intruder's own.
        """
        before = self._grown()
        last = []
        for theirs in (exchange.sent for exchange in self.trail if asks_as_tenant(exchange.sent.operation)):
            names = self.names_in(theirs)
            if not any(place[0] != "query" and ID.fullmatch(name) for place, name in names.items()):
                last.append((theirs, names))
                continue
            for who, secret in presented.items():
                self.attempt(f"replay as {who}", theirs.by(secret), names)
        if (grown := self._grown()) != before:
            self.harm.append(f"replay: {grown - before}")
        for theirs, names in last:
            for who, secret in presented.items():
                if kind_of(secret) is kind_of(theirs.secret or ""):
                    self.attempt(f"replay as {who}", theirs.by(secret), names, control=False)


def kind_of(secret: str) -> SecretKind | None:
    """The kind of a secret."""
    return auth_secrets.kind_of(auth_secrets.parse_dsn(secret).key)
