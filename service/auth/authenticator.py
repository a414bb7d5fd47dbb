"""Who sends a request: the early check, at the door (R-AUTH-01 to R-AUTH-13, G-021, G-025 to G-027).

It refuses early and grants nothing: what a command rests on is proven again under its gates (authority.py). Every
way in which a secret can be bad ends in the same 401: malformed, wrong checksum, unknown, expired, revoked. The
look-up is by the digest of what was presented, so its time tells nothing about what is stored (threat 5).
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, assert_never

import msgspec
import psycopg
import structlog

from projections.accounts import KEY_USES, KEYS, SESSION_USES
from projections.credentials import CREDENTIAL_USES, CredentialRow, ExchangedCredentialRow
from projections.kernel import Table
from service.auth import refusals, secrets
from service.auth.authority import ANONYMOUS, DELETION_GROUP, Access, Principal, PrincipalKind, fence_reaches, permits
from service.auth.secrets import POSTHOG, SENTRY, Dsn, SecretKind, sent_keys
from service.eventstore.connect.connection import IDLE_SECONDS, WatchedConnection, has_ended
from service.eventstore.store import EventStore
from service.fairness.turns import Looks
from service.settings import Settings
from service.sql import Query, load_query
from statemachines.accounts.membership import Role, membership_id, role_named
from statemachines.accounts.session import FRESH
from statemachines.credentials.credential import RUNNER
from statemachines.deletion.removal import KEPT_SECONDS
from statemachines.kernel.machine import Rejection
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

# When a key, session or credential was last used: noted in memory, written in the background (G-040). Not a command
# and not an event: losing a note to a crash loses a minute of a hint. Nothing on the hot path waits for it, and a row
# is rewritten at most once a minute.

log = structlog.get_logger(__name__)

FLUSH_SECONDS = 1.0
KEEP_SECONDS = 60  # a newer use within this time is not written
MOST_NOTES = 10_000

_WRITE: dict[Table[Any], Query] = {
    KEY_USES: load_query("auth", "use_keys"),
    SESSION_USES: load_query("auth", "use_sessions"),
    CREDENTIAL_USES: load_query("auth", "use_credentials"),
}


class Uses:
    """The notes of one process, and the task that writes them."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._notes: dict[Table[Any], set[tuple[str, str]]] = {table: set() for table in _WRITE}
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None
        self._used_at = 0.0  # on the monotonic clock
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def note(self, table: Table[Any], scope_id: str, id: str) -> None:
        """Note a use; `table` is KEY_USES, SESSION_USES or CREDENTIAL_USES."""
        notes = self._notes[table]
        if len(notes) < MOST_NOTES:
            notes.add((scope_id, id))

    def start(self) -> None:
        """Write the notes every second from now on."""
        self._task = asyncio.create_task(self._run(), name="credential-uses")

    async def stop(self) -> None:
        """Write what is noted and close the connection."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.flush()
        if self._connection is not None:
            await self._connection.close()

    async def flush(self) -> None:
        """Write what is noted now. A database that is not there costs the notes and nothing else."""
        async with self._lock:
            due = {table: sorted(notes) for table, notes in self._notes.items() if notes}
            for table in due:
                self._notes[table].clear()
            try:
                if due:
                    self._used_at = time.monotonic()
                elif self._connection is not None and time.monotonic() - self._used_at > IDLE_SECONDS:
                    connection, self._connection = self._connection, None
                    await connection.close()
                for table, names in due.items():
                    connection = await self._connected()
                    scopes, ids = [scope for scope, _ in names], [name for _, name in names]
                    values = {"scopes": scopes, "ids": ids, "kept": KEEP_SECONDS}
                    await connection.execute(_WRITE[table], values)
            except (psycopg.Error, OSError) as error:
                log.warning("uses_not_written", cause=type(error).__name__)

    async def _connected(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        if self._connection is not None and has_ended(self._connection):
            await self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = await WatchedConnection.connect(
                self._store.conninfo, autocommit=True, application_name="service-uses", connect_timeout=2
            )
            await self._connection.execute("set statement_timeout = '2s'")
        return self._connection

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()


CACHE_SECONDS = 1.0
AHEAD_SECONDS = 0.5
"""Before the end of what is remembered, a caller has it looked up anew and waits for nothing."""
CACHE_SIZE = 10_000
QUERY_DSN_PATHS = ("/v1/logs/", "/v1/analytics/", "/v1/analytics/browser-config")

_SESSION = load_query("auth", "session")
_CREDENTIAL = load_query("auth", "credential")
_EXCHANGED = load_query("auth", "exchanged")
_DSN = load_query("auth", "dsn")
_PUBLIC_DSN = load_query("auth", "public_dsn")
_FORMER = load_query("auth", "former")
_ASKED = load_query("auth", "asked")
_ROLE_OF_MEMBER = load_query("auth", "role_of_member")
_STATUS_OF_PROJECT = load_query("auth", "status_of_project")

SELF_DELETE_PATH = "/v1/auth/self_delete"

_BEARER = "bearer "
_SCOPED = frozenset({PrincipalKind.CI, PrincipalKind.RUNNER})
_NAMES: Mapping[PrincipalKind, str] = {
    PrincipalKind.KEY: "an API key",
    PrincipalKind.DSN: "the project's DSN",
    PrincipalKind.PUBLIC_DSN: "its public DSN",
    PrincipalKind.CI: "a CI credential",
    PrincipalKind.RUNNER: "a runner credential",
    PrincipalKind.INTERNAL: "the internal token",
    PrincipalKind.TEST: "the test token",
}


class PrincipalStanding(NamedTuple):
    """How a principal stands to a project it may see: its role there, and whether the deletion fence is up."""

    role: Role | None  # None: a credential of the project itself
    fenced: bool


_NOBODY = (0.0, ANONYMOUS)
_NO_STANDING = (0.0, PrincipalStanding(None, fenced=True))


class Authenticator:
    """Finds the principal of a request, and what it may see. One per process."""

    def __init__(self, settings: Settings, store: EventStore) -> None:
        self._settings = settings
        self._store = store
        self._known: dict[str, tuple[float, Principal]] = {}
        self._met: set[str] = set()  # digests of secrets that were somebody's at their last look-up
        self._standings: dict[tuple[str, str], tuple[float, PrincipalStanding]] = {}
        self._ended = 0  # how often something in this process ended a secret
        # Callers with one secret come at once, and what is remembered of it ends for all of them in one moment.
        self._principals = Looks(self._find_principal)
        self._positions = Looks(self._find_standing)
        self.uses = Uses(store)

    def start(self) -> None:
        """Start writing the times of use."""
        self.uses.start()

    async def stop(self) -> None:
        """Write the last times of use."""
        await self.uses.stop()

    def forget(self) -> None:
        """Drop what is remembered, after something in this process ended a secret."""
        self._ended += 1
        self._known.clear()
        self._met.clear()
        self._standings.clear()

    def recalls(self, shown: Dsn) -> bool:
        """Whether a secret was somebody's when this process last looked. It grants a turn of its own, and no more."""
        return secrets.digest(shown.key) in self._met

    async def authenticate(
        self,
        access: Access,
        headers: Mapping[str, str],
        query: Mapping[str, str | Sequence[str]],
        shown: Dsn | None = None,
        *,
        inner: bool = False,
    ) -> Principal:
        """Find who sends a request. `headers` by lower-case name; `query` holds the values of each parameter.

        `shown` is what `presented` says of the same request, where somebody has asked already. An `inner` request is
        made by a handler: there a session stands where a key is admitted. From outside, its secret is nobody's but
        at the pages that take it from the browser, so that no other page and no program can use it.
        Raises Unauthenticated, PrincipalNotAllowed, ScopeMissing, ReauthenticationRequired, and NotFound for a test
        route without a test token.
        """
        allowed = access.who.principals
        if PrincipalKind.ANONYMOUS in allowed:
            visits = PrincipalKind.SESSION in allowed
            return await self._visitor(access, headers, query, shown) if visits else ANONYMOUS
        if allowed == {PrincipalKind.TEST} and self._settings.test_token is None:
            raise refusals.NotFound
        try:
            check_places(access, headers, query)
            shown = shown or presented(access, headers, query)
            _check_session(access, shown, inner=inner)
            # What is remembered may let somebody through to the second check; a refusal rests on a fresh look, so that
            # a secret that has just ended is nobody's everywhere, and not of the wrong kind here and there.
            # Repeats of a deletion are answered without a command, so they have no second check either.
            remembered = access.mutation and access.group != DELETION_GROUP
            principal = await self._identify(shown, remembered=remembered)
            if remembered and _refusal(access, principal, inner=inner) is not None:
                principal = await self._identify(shown, remembered=False)
        except refusals.Unauthenticated as refused:
            if access.path == SELF_DELETE_PATH and (former := await self._former(headers)) is not None:
                return former
            raise refusals.Unauthenticated(str(refused), next_action=how_to_present(access)) from None
        if (refusal := _refusal(access, principal, inner=inner)) is not None:
            raise refusal
        return principal

    async def standing(
        self, principal: Principal, project_id: str, *, remembered: bool = False, as_found: bool = False
    ) -> PrincipalStanding:
        """Say how the principal stands to a project. What is `remembered` is at most a second old (see _identify).

        `as_found`: the principal was identified in this request and by the same rule, so what was found of its project
        with it needs no second look-up.
        Raises ProjectNotFound for an absent project, one that the person is no member of, and any project but its
        own for a credential: these look the same (R-GEN-14).
        """
        name = principal, project_id
        until, known = self._standings.get((principal.id, project_id), _NO_STANDING) if remembered else _NO_STANDING
        if (left := until - time.monotonic()) > 0:
            if left < AHEAD_SECONDS:
                self._positions.look_ahead(name)
            return known
        if as_found and principal.project_active and principal.project_id == project_id:
            return PrincipalStanding(None, fenced=False)
        return await self._positions.look(name)

    async def _find_standing(self, name: tuple[Principal, str]) -> PrincipalStanding:
        """Look for the standing of a principal to a project, and remember it. Raises ProjectNotFound."""
        principal, project_id = name
        moment, ended = time.monotonic(), self._ended
        if principal.kind.is_person:
            assert principal.user_id is not None
            mine = membership_id(project_id, principal.user_id)
            rows = await self._store.doors.fetch(_ROLE_OF_MEMBER, project_id=project_id, membership_id=mine)
        elif principal.project_id == project_id:
            found_status = await self._store.doors.fetch(_STATUS_OF_PROJECT, project_id=project_id)
            rows = [(None, status) for (status,) in found_status]
        else:
            rows = []
        standings = [
            PrincipalStanding(None if role is None else role_named(role), status != "active") for role, status in rows
        ]
        # A later release knows what a role without a meaning here is.
        standing = next((one for one in standings if one.role is not None or not principal.kind.is_person), None)
        if standing is None:
            raise ProjectNotFound("There is no such project.")
        # What may refuse is not remembered: a member who has just become an owner is one.
        if standing.role in {None, Role.OWNER} and not standing.fenced and ended == self._ended:
            if len(self._standings) >= CACHE_SIZE:
                self._standings.clear()
            self._standings[(principal.id, project_id)] = moment + CACHE_SECONDS, standing
        return standing

    async def admit(
        self,
        principal: Principal,
        project_id: str,
        access: Access,
        *,
        remembered: bool = False,
        as_found: bool = False,
    ) -> None:
        """Let a principal through to an operation on a project by visibility, role and fence, in this order (G-007).

        Who asked for the deletion of a project comes to that operation also when the project is gone: to the receipt.
        Raises ProjectNotFound as `standing`, OwnerRequired, ProjectDeletionInProgress.
        """
        try:
            standing = await self.standing(principal, project_id, remembered=remembered, as_found=as_found)
        except ProjectNotFound:
            if access.group != DELETION_GROUP or principal.user_id is None:
                raise
            [[asked]] = await self._store.doors.fetch(_ASKED, scope_id=project_id, account_id=principal.user_id)
            if not asked:
                raise
            return
        if standing.role is not None and not permits(access, standing.role):
            raise refusals.OwnerRequired
        if standing.fenced and fence_reaches(principal, access):
            raise ProjectDeletionInProgress("The project is being deleted.")

    async def _visitor(
        self, access: Access, headers: Mapping[str, str], query: Mapping[str, str | Sequence[str]], shown: Dsn | None
    ) -> Principal:
        """Find whose session shows a page that anybody may see; ANONYMOUS without an open one."""
        try:
            found = await self._identify(shown or presented(access, headers, query), remembered=False)
        except refusals.Unauthenticated:
            return ANONYMOUS
        return found if found.kind is PrincipalKind.SESSION else ANONYMOUS

    async def _identify(self, dsn: Dsn, *, remembered: bool) -> Principal:
        """Find the principal of a secret.

        Only operations whose commands prove the principal again may use what is `remembered`: a read has no second
        check, so it always looks.
        """
        for token, kind in (
            (self._settings.internal_token, PrincipalKind.INTERNAL),
            (self._settings.test_token, PrincipalKind.TEST),
        ):
            if token is not None and dsn.named is None and secrets.equal(dsn.key, token):
                return Principal(kind, kind.value)
        digest = secrets.digest(dsn.key)  # also for what is not looked up, so that garbage takes as long
        until, principal = self._known.get(digest, _NOBODY) if remembered else _NOBODY
        if (left := until - time.monotonic()) < AHEAD_SECONDS:
            name = secrets.kind_of(dsn.key), digest
            if left > 0:
                self._principals.look_ahead(name)
            else:
                principal = await self._principals.look(name)
        if not dsn.names(principal.project_id):
            raise refusals.Unauthenticated  # The path of the DSN names another project (G-026).
        self._note(principal)
        return principal

    async def _find_principal(self, name: tuple[SecretKind | None, str]) -> Principal:
        """Look for the principal of a secret, and remember it. Raises Unauthenticated."""
        kind, digest = name
        moment, ended = time.monotonic(), self._ended
        try:
            principal = await self._look_up(kind, digest)
        except refusals.Unauthenticated:
            self._met.discard(digest)
            raise
        if ended == self._ended:
            if len(self._met) >= CACHE_SIZE:
                self._met.clear()
            self._met.add(digest)
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            self._known[digest] = moment + CACHE_SECONDS, principal
        return principal

    async def _look_up(self, kind: SecretKind | None, digest: str) -> Principal:
        match kind:
            case SecretKind.KEY:
                return await self._key(digest)
            case SecretKind.CI | SecretKind.RUNNER:
                return await self._credential(digest)
            case SecretKind.DSN:
                return await self._dsn(PrincipalKind.DSN, _DSN, digest)
            case SecretKind.PUBLIC_DSN:
                return await self._dsn(PrincipalKind.PUBLIC_DSN, _PUBLIC_DSN, digest)
            case SecretKind.SESSION:
                return await self._session(digest)
            case SecretKind.DEVICE | SecretKind.LINK | None:
                raise refusals.Unauthenticated
            case _:
                assert_never(kind)

    async def _former(self, headers: Mapping[str, str]) -> Principal | None:
        """Find whose deleted account a key was of, for a replay of its deletion alone; never remembered."""
        authorization = headers.get("authorization", "")
        if authorization[: len(_BEARER)].lower() != _BEARER:
            return None
        secret = authorization[len(_BEARER) :].strip()
        kind = PrincipalKind.SESSION if secrets.is_session(secret) else PrincipalKind.KEY
        digest = secrets.digest(secret)
        for (user_id,) in await self._store.doors.fetch(_FORMER, digest=digest, kept=KEPT_SECONDS):
            return Principal(kind, user_id, scope_id=user_id, account=user_id, user_id=user_id, secret_hash=digest)
        return None

    async def _key(self, digest: str) -> Principal:
        where = "t.key_hash = %s and t.revoked_at is null"
        for row in await self._store.doors.find(KEYS, where, digest, limit=1):
            user_id = row.user_id
            return Principal(
                PrincipalKind.KEY, row.id, scope_id=user_id, account=user_id, user_id=user_id, secret_hash=digest
            )
        raise refusals.Unauthenticated

    async def _session(self, digest: str) -> Principal:
        for session_id, user_id, fresh in await self._store.doors.fetch(_SESSION, digest=digest, fresh=FRESH):
            return Principal(
                PrincipalKind.SESSION,
                session_id,
                scope_id=user_id,
                account=user_id,
                user_id=user_id,
                secret_hash=digest,
                fresh=fresh,
            )
        raise refusals.Unauthenticated

    async def _credential(self, digest: str) -> Principal:
        for text, account, active in await self._store.doors.fetch(_CREDENTIAL, digest=digest):
            row = msgspec.json.decode(text, type=CredentialRow)
            return Principal(
                PrincipalKind.RUNNER if row.kind == RUNNER else PrincipalKind.CI,
                row.id,
                scope_id=row.project_id,
                account=account,
                project_id=row.project_id,
                scopes=frozenset(row.scopes),
                automation_id=row.automation_id,
                runner_id=row.runner_id,
                secret_hash=digest,
                project_active=active,
            )
        for text, account, active in await self._store.doors.fetch(_EXCHANGED, digest=digest):
            exchanged = msgspec.json.decode(text, type=ExchangedCredentialRow)
            return Principal(
                PrincipalKind.CI,
                exchanged.id,
                scope_id=exchanged.project_id,
                account=account,
                project_id=exchanged.project_id,
                scopes=frozenset(exchanged.scopes),
                secret_hash=digest,
                project_active=active,
                run=exchanged.run,
            )
        raise refusals.Unauthenticated

    async def _dsn(self, kind: PrincipalKind, query: Query, digest: str) -> Principal:
        for project_id, account, active, level, variables in await self._store.doors.fetch(query, digest=digest):
            return Principal(
                kind,
                project_id,
                scope_id=project_id,
                account=account,
                project_id=project_id,
                secret_hash=digest,
                project_active=active,
                default_level=level,
                frame_variables=variables,
            )
        raise refusals.Unauthenticated

    def _note(self, principal: Principal) -> None:
        match principal.kind:
            case PrincipalKind.KEY:
                self.uses.note(KEY_USES, principal.scope_id, principal.id)
            case PrincipalKind.SESSION:
                self.uses.note(SESSION_USES, principal.scope_id, principal.id)
            case PrincipalKind.CI | PrincipalKind.RUNNER if principal.run is not None:
                pass  # It lives for a run, and what it does says so.
            case PrincipalKind.CI | PrincipalKind.RUNNER:
                self.uses.note(CREDENTIAL_USES, principal.scope_id, principal.id)
            case PrincipalKind.ANONYMOUS | PrincipalKind.DSN | PrincipalKind.PUBLIC_DSN | PrincipalKind.INTERNAL:
                pass
            case PrincipalKind.TEST | PrincipalKind.SYSTEM:
                pass
            case _:
                assert_never(principal.kind)


def _check_session(access: Access, shown: Dsn, *, inner: bool) -> None:
    """Raise Unauthenticated for a session from outside, but at the pages."""
    if not inner and PrincipalKind.SESSION not in access.who.principals and secrets.is_session(shown.key):
        raise refusals.Unauthenticated


def _refusal(access: Access, principal: Principal, *, inner: bool) -> Rejection | None:
    """Say why an operation is not for a principal; None when it is."""
    kind = principal.kind
    if kind not in access.who.principals and not (inner and kind.inside in access.who.principals):
        return refusals.PrincipalNotAllowed()
    if access.who.scope is not None and principal.kind in _SCOPED and access.who.scope not in principal.scopes:
        return refusals.ScopeMissing(required_scope=access.who.scope)
    if access.who.fresh and kind is PrincipalKind.SESSION and not principal.fresh:
        return refusals.ReauthenticationRequired()
    return None


def check_places(access: Access, headers: Mapping[str, str], query: Mapping[str, str | Sequence[str]]) -> None:
    """Raise Unauthenticated when a place of DSNs holds anything else, judged by its form alone (G-138)."""
    if "x-service-dsn" in headers and not _is_dsn(headers["x-service-dsn"].strip()):
        place = "key that an SDK sends is that of" if access.sdk else "header x-service-dsn accepts"
        raise refusals.Unauthenticated(f"The {place} a DSN only.")
    values = query.get("dsn", ()) if access.path in QUERY_DSN_PATHS else ()
    if not all(map(_is_dsn, [values] if isinstance(values, str) else values)):
        raise refusals.Unauthenticated("The parameter dsn accepts a DSN only.")


def _is_dsn(text: str) -> bool:
    return secrets.kind_of(secrets.parse_dsn(text).key) in secrets.DSN_KINDS


_OF_SDK = {POSTHOG: "posthog_key", SENTRY: "sentry_dsn"}


def how_to_present(access: Access) -> str:
    """Say which credentials a route takes, and where."""
    if access.sdk:
        return f"Set up the SDK with the project's `{_OF_SDK[access.sdk]}`, as its DSN shows it under `sdks`."
    if PrincipalKind.SESSION in access.who.principals:
        return "Sign in at /console/enter."
    names = [name for kind, name in _NAMES.items() if kind in access.who.principals]
    ways = [f"{' or '.join(names)} as Authorization: Bearer"] if names else []
    if PrincipalKind.DSN in access.who.principals:
        ways.append("the DSN as x-service-dsn" if len(names) > 1 else "as x-service-dsn")
    return f"Send {', or '.join(ways)}; one value only."


def presented(access: Access, headers: Mapping[str, str], query: Mapping[str, str | Sequence[str]]) -> Dsn:
    """Return the one secret of a request. Raises Unauthenticated for none, and for two that differ.

    Of two spellings of one DSN the one that names a project counts: that is checked too.
    """
    sent = []
    authorization = headers.get("authorization", "")
    if authorization[: len(_BEARER)].lower() == _BEARER:
        sent.append(authorization[len(_BEARER) :].strip())
    if "x-service-dsn" in headers and (not sent or PrincipalKind.DSN in access.who.principals):
        sent.append(headers["x-service-dsn"].strip())
    if access.path in QUERY_DSN_PATHS:
        values = query.get("dsn", ())
        sent.extend([values] if isinstance(values, str) else values)
    if access.sdk:
        sent += sent_keys(access.sdk, headers, query)
    if len(sent) == 1:
        return secrets.parse_dsn(sent[0])
    read = [secrets.parse_dsn(value) for value in sent]
    named = [dsn.named for dsn in read if dsn.named is not None]
    if len({dsn.key for dsn in read}) > 1 or not all(secrets.same_project(named[0], other) for other in named):
        raise refusals.Unauthenticated("The request carries two credentials that differ.")
    if not read:
        raise refusals.Unauthenticated
    return Dsn(read[0].key, named[0] if named else None)
