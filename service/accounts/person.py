"""People: their accounts, keys and feedback, read and changed."""

from typing import NamedTuple

import msgspec

from projections import accounts
from projections.projects import PROJECTS
from schemas.accounts import SendFeedback
from service.auth.refusals import InvalidPayload
from service.auth.secrets import Secret, SecretKind, make
from service.eventstore.connect.facts import NOW_SECONDS
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.eventstore.write.lane import forget
from service.ids import new_id
from service.sql import load_query
from statemachines.accounts import key as keys
from statemachines.accounts import person as people
from statemachines.accounts import person as persons
from statemachines.accounts.invitation import normalized, proves
from statemachines.accounts.sign_in import LIFETIME, sign_in_id
from statemachines.kernel.machine import Stream
from statemachines.kernel.telling import holds_own_secret
from statemachines.projects.project import ProjectNotFound

# Queries about people, keys, sessions, memberships, invitations and sign-ins.

_KEYS_OF = load_query("accounts", "keys_of")
_SESSIONS_OF = load_query("accounts", "sessions_of")
_ALL_KEYS = load_query("accounts", "all_keys")
_FEEDBACK = load_query("accounts", "feedback")
_MEMBERS = load_query("accounts", "members")
_MEMBERS_PAGE = load_query("accounts", "members_page")
_OFFERED = load_query("accounts", "offered")
_STANDS = "invitation_stands(project => t.project_id, invitation => t.id)"


class UsedKey(NamedTuple):
    """A key, and when it was last used, in epoch seconds."""

    key: accounts.KeyRow
    last_used_at: int | None


class UsedSession(NamedTuple):
    """A session, and when it was last used, in epoch seconds."""

    session: accounts.SessionRow
    last_used_at: int | None


class ListedKey(NamedTuple):
    """A key with its person's mail address ('' of a deleted account) and its last use, in epoch seconds."""

    key: accounts.KeyRow
    email: str
    last_used_at: int | None


class Member(NamedTuple):
    """A member of a project, joined at `created_at`, in epoch seconds."""

    user_id: str
    email: str
    role: str
    created_at: int


class ListedMember(NamedTuple):
    """A member of a project on a page; joined at `created_at`, in epoch seconds, by the membership `id`."""

    user_id: str
    email: str
    role: str
    created_at: int
    id: str


class Offered(NamedTuple):
    """An invitation as the person with its address may see it, and the project's name."""

    invitation: accounts.InvitationRow
    project_name: str


async def keys_of(store: EventStore, user_id: str, after: PageEnd, limit: int) -> list[UsedKey]:
    """List at most `limit` keys of a person that come after a place, live and revoked, newest first."""
    rows = await store.fetch(_KEYS_OF, user_id=user_id, at=after.at, id=after.id, limit=limit)
    return [UsedKey(msgspec.json.decode(text, type=accounts.KeyRow), used) for text, used in rows]


async def sessions_of(store: EventStore, user_id: str, after: PageEnd, limit: int) -> list[UsedSession]:
    """List at most `limit` open sessions of a person that come after a place, newest first."""
    rows = await store.fetch(_SESSIONS_OF, user_id=user_id, at=after.at, id=after.id, limit=limit)
    return [UsedSession(msgspec.json.decode(text, type=accounts.SessionRow), used) for text, used in rows]


async def find_link(store: EventStore, link_hash: str) -> accounts.SessionRow | None:
    """Find the unused link of a secret by its SHA-256."""
    rows = await store.find(accounts.SESSIONS, "t.link_hash = %s and t.status = 'offered'", link_hash, limit=1)
    return rows[0] if rows else None


async def all_keys(store: EventStore, user_id: str | None = None) -> list[ListedKey]:
    """List the keys of a person, or of everybody, newest first."""
    rows = await store.fetch(_ALL_KEYS, user_id=user_id)
    return [ListedKey(msgspec.json.decode(text, type=accounts.KeyRow), email, used) for text, email, used in rows]


async def latest_feedback(store: EventStore, limit: int) -> list[accounts.FeedbackRow]:
    """List at most `limit` feedback of everybody, the latest first."""
    rows = await store.fetch(_FEEDBACK, limit=limit)
    return [msgspec.json.decode(text, type=accounts.FeedbackRow) for (text,) in rows]


async def find_key(store: EventStore, key_id: str) -> accounts.KeyRow | None:
    """Find a key by its id, whoever's it is."""
    rows = await store.find(accounts.KEYS, "t.id = %s", key_id, limit=1)
    return rows[0] if rows else None


async def find_person(store: EventStore, text: str) -> accounts.PersonRow:
    """Find a person by user id or mail address. Raises PersonNotFound, also when several have the address."""
    rows = await store.find(accounts.PEOPLE, "t.id = %s or t.email = %s", text, text, limit=2)
    if len(rows) != 1:
        raise persons.PersonNotFound(
            "Several people have this address." if rows else "There is no such person.",
            next_action="Name the person by user id." if rows else "Create a key for the person first.",
        )
    return rows[0]


async def find_proven(store: EventStore, email: str) -> accounts.PersonRow | None:
    """Find the person with a proven address: by the identity of the address itself first, else by a verified one."""
    texts = sorted({email, normalized(email)})
    ids = [persons.person_id(store.installation_salt, persons.Identity("email", text, text)) for text in texts]
    where = "not t.synthetic and (t.id = any(%s) or (t.email = any(%s) and t.email_verified))"
    order = "t.provider <> 'email', t.created_at, t.id"
    rows = await store.find(accounts.PEOPLE, where, ids, texts, order_by=order, limit=1)
    return rows[0] if rows else None


async def find_signed_in_otherwise(store: EventStore, identity: persons.Identity) -> accounts.PersonRow | None:
    """Find the person who has the address of an identity and signs in at an issuer, unless the identity has its own."""
    own = persons.person_id(store.installation_salt, identity)
    if await store.get(accounts.PEOPLE, own, own) is not None:
        return None
    where = "not t.synthetic and t.provider <> 'email' and lower(t.email) = lower(%s)"
    rows = await store.find(accounts.PEOPLE, where, identity.email, order_by="t.created_at, t.id", limit=1)
    return rows[0] if rows else None


async def members_of(store: EventStore, project_id: str) -> list[Member]:
    """List the members of a project, oldest first. Raises ProjectNotFound."""
    if await store.get(PROJECTS, project_id, project_id) is None:
        raise ProjectNotFound("There is no such project.")
    return [Member(*row) for row in await store.fetch(_MEMBERS, project_id=project_id)]


async def other_memberships(store: EventStore, project_id: str, user_id: str) -> list[accounts.MembershipRow]:
    """Read the memberships of a project but for one person's."""
    return [row for row in await memberships_in(store, project_id) if row.user_id != user_id]


async def find_sign_in(store: EventStore, device_code_hash: str) -> accounts.SignInRow | None:
    """Find the sign-in of a device by the SHA-256 of its code."""
    rows = await store.find(accounts.SIGN_INS, "t.device_code_hash = %s", device_code_hash, limit=1)
    return rows[0] if rows else None


async def pending_sign_in(store: EventStore, user_code: str) -> accounts.SignInRow | None:
    """Find the live sign-in that shows a user code and waits for somebody."""
    wanted = sign_in_id(store.installation_salt, user_code)
    where = f"t.project_id = %s and t.id = %s and t.status = 'pending' and t.expires_at > {NOW_SECONDS}"
    rows = await store.find(accounts.SIGN_INS, where, wanted, wanted, limit=1)
    return rows[0] if rows else None


async def live_sign_ins(store: EventStore) -> list[accounts.SignInRow]:
    """List the live sign-ins, newest first. Their codes are not stored, so they cannot be shown."""
    return await store.find(accounts.SIGN_INS, f"t.expires_at > {NOW_SECONDS}", order_by="t.started_at desc, t.id desc")


async def memberships_in(store: EventStore, project_id: str) -> list[accounts.MembershipRow]:
    """Read the memberships of a project."""
    return await store.find(accounts.MEMBERSHIPS, "t.project_id = %s", project_id)


async def members_with(store: EventStore, project_id: str, email: str) -> list[str]:
    """Name the members of a project by the user id whose address is this one."""
    return [one.user_id for one in await members_of(store, project_id) if normalized(one.email) == normalized(email)]


async def members_page(store: EventStore, project_id: str, after: PageEnd, limit: int) -> list[ListedMember]:
    """List at most `limit` members of a project that come after a place, newest first."""
    rows = await store.fetch(_MEMBERS_PAGE, project_id=project_id, at=after.at, id=after.id, limit=limit)
    return [ListedMember(*row) for row in rows]


async def open_invitations(store: EventStore, project_id: str) -> list[accounts.InvitationRow]:
    """List the open invitations of a project, newest first. Their number is bounded."""
    where = f"t.project_id = %s and t.status = 'open' and {_STANDS}"
    return await store.find(accounts.INVITATIONS, where, project_id, order_by="t.invited_at desc, t.id desc")


async def find_offered(store: EventStore, made_id: str, user_id: str) -> Offered | None:
    """Find an invitation that a person could accept or has accepted; None for everybody else."""
    for text, name, shown in await store.fetch(_OFFERED, user_id=user_id, invitation_id=made_id):
        invitation, row = (
            msgspec.json.decode(text, type=accounts.InvitationRow),
            msgspec.json.decode(shown, type=accounts.PersonRow),
        )
        person = persons.Person(persons.Status(row.status), row.email, row.email_verified, row.name, row.synthetic)
        return Offered(invitation, name) if proves(person, invitation.email) else None
    return None


# People, their keys, their feedback, and how both are forgotten (R-AUTH-18, G-021).

# People become known by the identity that a provider vouches for (R-AUTH-18, G-021).


class KnownPerson(NamedTuple):
    """A person who is known now; `is_new` when the command made the account."""

    user_id: str
    is_new: bool


def resolve(salt: str, identity: persons.Identity) -> Intent[KnownPerson]:
    """Find or create the person of an identity; `salt` is the installation's. Raises AccountDeletionInProgress."""
    person = people.stream(people.person_id(salt, identity))
    return Intent([person], lambda unit: register(unit, person, identity))


def register(unit: Unit, person: Stream, identity: persons.Identity) -> KnownPerson:
    """Make an identity known, as a step of a command that writes its person. Raises AccountDeletionInProgress."""
    row = unit.row(accounts.PEOPLE, *person.name)
    if row is not None and row.status != "active":
        # The history of an account that goes may be erased already, and its state with it; the row stays to the end.
        raise persons.AccountDeletionInProgress(
            "The account is being deleted.", next_action="Sign in again once it is gone."
        )
    before = unit.state(person)
    unit.append(person, people.decide_register(before, identity, unit.now))
    return KnownPerson(person.id, before.status is not people.Status.ACTIVE)


def check_active(unit: Unit, person: Stream) -> None:
    """Raise AccountDeletionInProgress or PersonNotFound for a person without an active account."""
    match unit.state(person).status:
        case people.Status.ACTIVE:
            return
        case people.Status.FENCED:
            raise persons.AccountDeletionInProgress("The account is being deleted.")
        case _:
            raise persons.PersonNotFound("There is no such person.")


# Feedback of people: kept once for each kind and fingerprint, and counted (G-063, G-158).


def check(wish: SendFeedback, schema: dict[str, object]) -> None:
    """Refuse texts with a credential of this service, and long details. Raises InvalidPayload with the schema."""
    details = b"" if wish.details is msgspec.UNSET else msgspec.json.encode(wish.details)
    texts = {name: getattr(wish, name) for name in ("fingerprint", "title", "body_md", "operation", "request_id")}
    texts["details"] = details.decode()
    faults = [
        (name, "must not hold a credential of this service")
        for name, text in texts.items()
        if isinstance(text, str) and holds_own_secret(text)
    ]
    if len(details) > persons.MOST_DETAILS:
        faults.append(("details", f"must be {persons.MOST_DETAILS:,} bytes of JSON at most"))
    if faults:
        raise InvalidPayload("The feedback cannot be kept.", invalid=faults, schema=schema)


def send(user_id: str, wish: SendFeedback) -> Intent[accounts.FeedbackRow]:
    """Keep feedback of a person, or count a repeat. Raises TooMuchFeedback.

    A fence of the person: rivals for the last place come one after the other.
    """
    person, name = people.stream(user_id), persons.feedback_id(user_id, wish.kind, wish.fingerprint)

    def decide(unit: Unit) -> accounts.FeedbackRow:
        known, count = unit.row(accounts.FEEDBACK, user_id, name), unit.row(accounts.FEEDBACK_COUNTS, user_id, user_id)
        if known is None:
            persons.require_room(count.kept if count else 0)
            row = _row(user_id, name, wish, unit.now)
        else:
            row = msgspec.structs.replace(known, occurrences=known.occurrences + 1, last_at=unit.now)
        unit.put(person, accounts.FEEDBACK, row)
        return row

    lookups = [Lookup(accounts.FEEDBACK, user_id, name), Lookup(accounts.FEEDBACK_COUNTS, user_id, user_id)]
    return Intent([person], decide, lookups=lookups, fence=user_id, saves=True)


def _row(user_id: str, name: str, wish: SendFeedback, now: int) -> accounts.FeedbackRow:
    return accounts.FeedbackRow(
        project_id=user_id,
        id=name,
        kind=wish.kind,
        fingerprint=wish.fingerprint,
        title=wish.title,
        body_md=wish.body_md or None,
        severity=wish.severity or None,
        about_project=wish.project_id or None,
        operation=wish.operation or None,
        request_id=wish.request_id or None,
        details=None if wish.details is msgspec.UNSET else msgspec.json.encode(wish.details).decode(),
        occurrences=1,
        created_at=now,
        last_at=now,
    )


# API keys: made for a person, and ended for good (G-021, G-027).


class NewKey(NamedTuple):
    """A key that was just made; `api_key` is its secret, shown once. `is_new`: the account came into being with it."""

    user_id: str
    key_id: str
    api_key: str
    key_prefix: str
    is_new: bool


def create(salt: str, identity: persons.Identity) -> Intent[NewKey]:
    """Make a key for the person of an identity, and the person if need be. Raises AccountDeletionInProgress."""
    person = people.stream(people.person_id(salt, identity))
    secret, key = make(SecretKind.KEY), keys.stream(person.id, new_id("key"))

    def decide(unit: Unit) -> NewKey:
        known = register(unit, person, identity)
        return mint(unit, key, secret, sign_in_id=None, is_new=known.is_new)

    return Intent([person, key], decide)


def mint(unit: Unit, key: Stream, secret: Secret, *, sign_in_id: str | None, is_new: bool) -> NewKey:
    """Make a key, as a step of a command that writes its stream; `sign_in_id` is None when an operator makes it."""
    unit.append(key, [keys.KeyMinted(key.project_id, secret.hash, secret.prefix, sign_in_id, unit.now)])
    return NewKey(key.project_id, key.id, secret.text, secret.prefix, is_new)


def revoke(user_id: str, key_id: str) -> Intent[UsedKey]:
    """End a key of a person; the first revocation counts. Raises KeyNotFound.

    A fence of the person: from the answer on nothing that rests on the key commits.
    """
    stream = keys.stream(user_id, key_id)

    def decide(unit: Unit) -> UsedKey:
        unit.append(stream, keys.decide_revoke(unit.state(stream), unit.now))
        row, used = unit.row(accounts.KEYS, *stream.name), unit.row(accounts.KEY_USES, *stream.name)
        assert row is not None, "a key that was minted keeps its row"
        return UsedKey(row, used.last_used_at if used else None)

    return Intent([stream], decide, lookups=[Lookup(accounts.KEY_USES, *stream.name)], fence=user_id)


async def revoke_anyones(store: EventStore, key_id: str) -> Intent[UsedKey]:
    """End a key, whoever's it is. Raises KeyNotFound."""
    row = await find_key(store, key_id)
    if row is None:
        raise keys.KeyNotFound("There is no such key.", next_action="List the keys.")
    return revoke(row.user_id, key_id)


# Forgetting sign-ins, sessions and invitations whose time is over (G-020, G-177). Their history stays. What goes are
# the rows that polls and pages look up, what is noted of the pace of polling and of uses, and what showed an
# invitation.

_OVER = {
    accounts.SIGN_INS.name: f"expires_at < {NOW_SECONDS} - {accounts.KEPT}",
    accounts.SIGN_IN_POLLS.name: f"last_polled_at < {NOW_SECONDS} - {LIFETIME + accounts.KEPT}",
    accounts.SESSIONS.name: f"expires_at < {NOW_SECONDS} - {accounts.KEPT}",
    accounts.SESSION_USES.name: f"last_used_at < {NOW_SECONDS} - {accounts.LONGEST_USE}",
    accounts.INVITATIONS.name: f"expires_at < {NOW_SECONDS} - {accounts.KEPT}",
}


async def forget_sign_ins(conninfo: str) -> None:
    """Delete the sign-ins, polls, sessions and invitations that are over. Raises psycopg.Error."""
    await forget(conninfo, _OVER.items(), "sign_ins_forgotten")
