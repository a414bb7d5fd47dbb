"""Projects and their DSNs: made, rotated, read and shown (R-PROJ-01, R-PROJ-02, G-023)."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from msgspec.structs import asdict

from projections.accounts import PEOPLE
from projections.projects import DSN_COPIES, PROJECT_SETTINGS, PUBLIC, DsnCopyRow, SettingsRow
from schemas import projects as wire
from schemas.kernel.shape import Role
from service.auth import secrets as auth_secrets
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.ids import new_id
from service.sql import load_query
from statemachines.accounts import membership as memberships
from statemachines.contracts import contract as contracts
from statemachines.kernel.machine import Stream
from statemachines.projects import project as projects
from statemachines.projects import settings
from statemachines.projects.project import ProjectCreated, ProjectNotFound, decide_rotate, decide_rotate_public

# The DSNs of a project: verified, rotated, and the copies that can be read again. R-PROJ-03 to R-PROJ-06, G-026,
# G-184. Of a DSN the log keeps a hash. A copy that can be read again is sealed with the encryption key and kept beside
# the project; without such a key (None) there is none.


class IssuedDsn(NamedTuple):
    """A project with a DSN that was just made; `key` is its secret part, `issued_at` in epoch seconds.

    `public_key` is the key of the public DSN where both were made together.
    """

    project_id: str
    name: str
    key: str
    prefix: str
    recoverable: bool
    issued_at: int
    public_key: str | None = None


class CheckedDsn(NamedTuple):
    """Whether a text is a DSN of the project, and whether it is the public one.

    `sent_project_id` is the project that the text names, if it names one: by its id, or another's by the alias.
    """

    project_id: str
    matches: bool
    prefix: str
    sent_project_id: str | None
    copied: bool
    public: bool = False


def verify(project_id: str, dsn: str, encryption_key: bytes | None) -> Intent[CheckedDsn]:
    """Compare a DSN, or its bare key, with the project's, and keep a missing copy of it. Never rotates (R-PROJ-04)."""
    project, sent = projects.stream(project_id), auth_secrets.parse_dsn(dsn)
    sent_hash, public = (
        auth_secrets.digest(sent.key),
        auth_secrets.kind_of(sent.key) is auth_secrets.SecretKind.PUBLIC_DSN,
    )
    copy = seal_copy(encryption_key, project_id, sent.key, public=public)

    def decide(unit: Unit) -> CheckedDsn:
        state = unit.state(project)
        dsn_hash, prefix = (
            (state.public_dsn_hash, state.public_dsn_prefix) if public else (state.dsn_hash, state.dsn_prefix)
        )
        matches = auth_secrets.equal(sent_hash, dsn_hash) and sent.names(project_id)
        if matches and copy is not None:
            # Also over a copy that exists: it may have been sealed under an earlier key.
            keep_copy(unit, project, sent_hash, copy, public=public)
        named = project_id if sent.named is not None and sent.names(project_id) else sent.named
        shown = prefix if matches else state.dsn_prefix
        return CheckedDsn(project_id, matches, shown, named, matches and copy is not None, matches and public)

    return Intent([project], decide)


def rotate(project_id: str, encryption_key: bytes | None, *, public: bool = False) -> Intent[IssuedDsn]:
    """Replace the DSN (R-PROJ-06), or the public one (G-184). Raises ProjectNotFound, ProjectDeletionInProgress.

    A fence of the project: nothing that rests on the DSN before commits after the answer.
    """
    project, secret = (
        projects.stream(project_id),
        auth_secrets.make(auth_secrets.SecretKind.PUBLIC_DSN if public else auth_secrets.SecretKind.DSN),
    )
    copy = seal_copy(encryption_key, project_id, secret.text, public=public)
    decide_new = decide_rotate_public if public else decide_rotate

    def decide(unit: Unit) -> IssuedDsn:
        state = unit.append(project, decide_new(unit.state(project), secret.hash, secret.prefix, unit.now))
        keep_copy(unit, project, secret.hash, copy, public=public)
        return IssuedDsn(project_id, state.name, secret.text, secret.prefix, copy is not None, unit.now)

    return Intent([project], decide, fence=True)


def seal_copy(encryption_key: bytes | None, project_id: str, key: str, *, public: bool = False) -> str | None:
    """Seal the key of a DSN, or of the public one. None without an encryption key."""
    return auth_secrets.seal(
        encryption_key, auth_secrets.PUBLIC_DSN_COPY if public else auth_secrets.DSN_COPY, project_id, key
    )


def keep_copy(unit: Unit, project: Stream, dsn_hash: str, copy: str | None, *, public: bool = False) -> None:
    """Put the sealed copy beside the project; None takes the place of a copy that no longer counts."""
    name = PUBLIC if public else project.id
    unit.put(project, DSN_COPIES, DsnCopyRow(project_id=project.id, id=name, dsn_hash=dsn_hash, ciphertext=copy))


# Making a project (R-PROJ-01, R-PROJ-02, G-023).


def create(user_id: str, name: str, encryption_key: bytes | None) -> Intent[IssuedDsn]:
    """Make a project that a person owns, with both DSNs; that of a test run's person is synthetic."""
    project_id, secret, public = (
        new_id("proj"),
        auth_secrets.make(auth_secrets.SecretKind.DSN),
        auth_secrets.make(auth_secrets.SecretKind.PUBLIC_DSN),
    )
    project, membership = projects.stream(project_id), memberships.stream(project_id, user_id)
    copy = seal_copy(encryption_key, project_id, secret.text)
    public_copy = seal_copy(encryption_key, project_id, public.text, public=True)

    def decide(unit: Unit) -> IssuedDsn:
        person = unit.row(PEOPLE, user_id, user_id)
        assert person is not None, "the authority check has read the caller's row"
        created = ProjectCreated(
            name=name,
            created_by=user_id,
            synthetic=person.synthetic,
            dsn_hash=secret.hash,
            dsn_prefix=secret.prefix,
            created_at=unit.now,
            public_dsn_hash=public.hash,
            public_dsn_prefix=public.prefix,
            accept_public_events=False,
            default_level="info",
        )
        unit.append(project, [created])
        unit.append(membership, [memberships.OwnerAdded(user_id, unit.now)])
        keep_copy(unit, project, secret.hash, copy)
        keep_copy(unit, project, public.hash, public_copy, public=True)
        return IssuedDsn(project_id, name, secret.text, secret.prefix, copy is not None, unit.now, public.text)

    return Intent([project, membership], decide, lookups=[Lookup(PEOPLE, user_id, user_id)])


# The projects of a person, and the DSN of one where a copy of it can be opened (R-PROJ-02, R-PROJ-03).

_PROJECTS_OF = load_query("projects", "projects_of")
_DSN_OF = load_query("projects", "dsn_of")


class ListedProject(NamedTuple):
    """A project for one of its members. `copied`: a sealed copy of its DSN is kept."""

    id: str
    name: str
    role: str
    dsn_prefix: str
    copied: bool
    created_at: int


class KnownDsn(NamedTuple):
    """The DSN of a project: its first characters, and its key where a copy can be opened. The same of the public one.

    `public_prefix` is None in a project without a public DSN.
    """

    prefix: str
    key: str | None
    public_prefix: str | None
    public_key: str | None


async def projects_of(store: EventStore, user_id: str, after: PageEnd, limit: int) -> list[ListedProject]:
    """List at most `limit` projects of a person that come after a place, newest first."""
    rows = await store.fetch(_PROJECTS_OF, user_id=user_id, at=after.at, id=after.id, limit=limit)
    return [ListedProject(*row) for row in rows]


async def dsn_of(store: EventStore, project_id: str, encryption_key: bytes | None) -> KnownDsn:
    """Read the DSNs of a project, and leave them as they are. Raises ProjectNotFound."""
    rows = await store.fetch(_DSN_OF, project_id=project_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    [(prefix, sealed, public_prefix, public_sealed)] = rows
    key = auth_secrets.unseal(encryption_key, auth_secrets.DSN_COPY, project_id, sealed)
    return KnownDsn(
        prefix,
        key,
        public_prefix,
        auth_secrets.unseal(encryption_key, auth_secrets.PUBLIC_DSN_COPY, project_id, public_sealed),
    )


# Projects and their DSN on the wire (R-PROJ-01 to R-PROJ-07, R-PROJ-15, G-023, G-026).

DEPLOYS_NOTE = "Deploys are recorded from CI, with the DSN or with a ci_deploy credential. Never from a browser."


def project_list(projects: Sequence[ListedProject], next_cursor: str | None, *, can_unseal: bool) -> wire.ProjectList:
    """A page of a person's projects. `can_unseal`: this process has the key of the sealed copies."""
    return wire.ProjectList(
        projects=[_item(project, can_unseal=can_unseal) for project in projects],
        count=len(projects),
        next_cursor=next_cursor,
        next_action="Choose the project to work on, or create one with POST /v1/projects.",
    )


def project_created(base_url: str, issued: IssuedDsn, *, raw: bool) -> wire.ProjectCreatedBody:
    """A new project, with the DSN itself where it is shown for the first time (`raw`)."""
    return wire.ProjectCreatedBody(
        id=issued.project_id,
        **_sdks(base_url, issued.project_id, issued.key if raw else None),
        project_id=issued.project_id,
        name=issued.name,
        role="owner",
        dsn=auth_secrets.make_dsn(base_url, issued.key, issued.project_id) if raw else None,
        dsn_prefix=issued.prefix,
        dsn_recoverable=issued.recoverable,
        **_public(base_url, issued.project_id, issued.public_key if raw else None),
        created_at=issued.issued_at,
        next_action="Put the DSN into SERVICE_DSN, then read the next steps of the project."
        if raw
        else "The DSN was shown once. Read it again with GET /v1/projects/{project_id}/dsn.",
        **_endpoints(base_url),
    )


def dsn_rotated(base_url: str, issued: IssuedDsn, *, raw: bool) -> wire.DsnRotatedBody:
    """The DSN that replaces the one before, itself where it is shown for the first time (`raw`)."""
    return wire.DsnRotatedBody(
        id=issued.project_id,
        **_sdks(base_url, issued.project_id, issued.key if raw else None),
        name=issued.name,
        dsn=auth_secrets.make_dsn(base_url, issued.key, issued.project_id) if raw else None,
        dsn_recoverable=issued.recoverable,
        next_action="Replace SERVICE_DSN everywhere now. The previous DSN no longer works."
        if raw
        else "The DSN was shown once. Read it with GET /v1/projects/{project_id}/dsn.",
        **_endpoints(base_url),
    )


def public_dsn_rotated(base_url: str, issued: IssuedDsn, *, raw: bool) -> wire.PublicDsnRotatedBody:
    """The public DSN that replaces the one before, itself where it is shown for the first time (`raw`)."""
    endpoints = _endpoints(base_url)
    return wire.PublicDsnRotatedBody(
        id=issued.project_id,
        alias=auth_secrets.alias_of(issued.project_id),
        name=issued.name,
        **_public(base_url, issued.project_id, issued.key if raw else None),
        public_dsn_prefix=issued.prefix,
        dsn_recoverable=issued.recoverable,
        logs_url=endpoints["logs_url"],
        analytics_url=endpoints["analytics_url"],
        next_action="Put the public DSN into your pages. A public DSN before it no longer works."
        if raw
        else "The public DSN was shown once. Read it with GET /v1/projects/{project_id}/dsn.",
    )


def dsn(base_url: str, project_id: str, known: KnownDsn) -> wire.DsnBody:
    """The DSNs as far as they are known, and where to verify or rotate the server's."""
    place = f"{base_url}/v1/projects/{project_id}/dsn"
    return wire.DsnBody(
        project_id=project_id,
        **_sdks(base_url, project_id, known.key),
        dsn_prefix=known.prefix,
        raw_available=known.key is not None,
        dsn=None if known.key is None else auth_secrets.make_dsn(base_url, known.key, project_id),
        **_public(base_url, project_id, known.public_key),
        public_dsn_prefix=known.public_prefix,
        verify_endpoint=f"{place}/verify",
        rotate_endpoint=f"{place}/rotate",
        next_action="Keep the DSN in SERVICE_DSN."
        if known.key is not None
        else "Verify the DSN you hold. If it is lost, rotate it.",
    )


def dsn_verified(checked: CheckedDsn) -> wire.DsnVerified:
    """Whether a DSN is the project's."""
    return wire.DsnVerified(
        ok=checked.matches,
        project_id=checked.project_id,
        dsn_prefix=checked.prefix,
        parsed_project_id=checked.sent_project_id,
        stored_for_recovery=checked.copied,
        next_action=_after_check(checked),
    )


def _after_check(checked: CheckedDsn) -> str:
    if not checked.matches:
        return "Use the DSN of this project. An owner can read or rotate it."
    return "This is the public DSN. Use it in pages alone." if checked.public else "Nothing to do."


def _item(project: ListedProject, *, can_unseal: bool) -> wire.ProjectItem:
    return wire.ProjectItem(
        id=project.id,
        project_id=project.id,
        alias=auth_secrets.alias_of(project.id),
        name=project.name,
        role=cast("Role", project.role),
        dsn_prefix=project.dsn_prefix,
        dsn_recoverable=project.copied and can_unseal,
        created_at=project.created_at,
    )


def _sdks(base_url: str, project_id: str, key: str | None) -> dict[str, Any]:
    """The settings for SDKs of other services."""
    return {
        "alias": auth_secrets.alias_of(project_id),
        "sdks": None if key is None else _settings(base_url, project_id, key),
    }


def _public(base_url: str, project_id: str, key: str | None) -> dict[str, Any]:
    """The public DSN, and the settings with it."""
    if key is None:
        return {"public_dsn": None, "sdks_public": None}
    return {
        "public_dsn": auth_secrets.make_dsn(base_url, key, project_id),
        "sdks_public": _settings(base_url, project_id, key),
    }


def _settings(base_url: str, project_id: str, key: str) -> wire.SdkSettings:
    return wire.SdkSettings(
        sentry_dsn=auth_secrets.make_dsn(base_url, key, project_id),
        posthog_host=base_url,
        posthog_key=key,
        otlp_endpoint=base_url,
        otlp_headers=f"authorization=Bearer%20{key}",
    )


def _endpoints(base_url: str) -> dict[str, Any]:
    """The members of DsnEndpoints."""
    return {
        "logs_url": f"{base_url}/v1/logs/",
        "analytics_url": f"{base_url}/v1/analytics/",
        "deploys_url": f"{base_url}/v1/deploys/",
        "deploys_note": DEPLOYS_NOTE,
    }


# Settings of a project: changed, read and shown (G-202). A change is a fence of the project. After its answer, no
# decision under the former settings can commit. A loosening change turns an enabled contract off in the same
# transaction, as its replacement would.

# Changing the settings of a project (G-202).

LOOSENED = "settings_loosened"
"""The reason of an automation turned off by a change of the settings."""


class ChangedSettings(NamedTuple):
    """The settings in force after a change, their row if there is one, and the automations turned off by it."""

    in_force: settings.InForce
    row: SettingsRow | None
    turned_off: list[str]


def change(
    project_id: str, wish: settings.SettingsWish, *, if_match: str | None, changed_by: str
) -> Intent[ChangedSettings]:
    """Change settings at the revision of a tag. `changed_by` is a user id. Refused as decide_change refuses."""
    stream, project, contract = settings.stream(project_id), projects.stream(project_id), contracts.stream(project_id)

    def decide(unit: Unit) -> ChangedSettings:
        made = unit.state(project)
        before = settings.in_force(unit.state(stream), made)
        events = settings.decide_change(
            unit.state(stream), made, wish, project_id=project_id, if_match=if_match, by=changed_by, now=unit.now
        )
        after = settings.in_force(unit.append(stream, events), made)
        turned_off: list[str] = []
        if settings.loosens(before, after):
            state = unit.state(contract)
            turned_off = [a.saved.automation_id for a in state.automations if a.enabled]
            unit.append(
                contract, contracts.decide_disable_all(state, reason=LOOSENED, disabled_by=changed_by, now=unit.now)
            )
        return ChangedSettings(after, unit.row(PROJECT_SETTINGS, project_id, stream.id), turned_off)

    return Intent([stream, contract], decide, reads=[project], fence=True, saves=True)


# The settings of a project in force (G-202).

_SETTINGS = load_query("projects", "settings")


class KnownSettings(NamedTuple):
    """The settings in force, and the latest change of them: its revision, time (epoch seconds) and author."""

    in_force: settings.InForce
    revision: int
    changed_at: int | None
    changed_by: str | None


async def settings_of(store: EventStore, project_id: str) -> KnownSettings:
    """Read the settings of a project. Raises ProjectNotFound."""
    rows = await store.fetch(_SETTINGS, project_id=project_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    [(*in_force, revision, changed_at, changed_by)] = rows
    return KnownSettings(settings.InForce(*in_force), revision or 0, changed_at, changed_by)


# The settings of a project on the wire (G-202).


def _shown(in_force: settings.InForce) -> dict[str, Any]:
    """The settings by name, with numbers in place of decimal texts."""
    bound = in_force.maximum_error_probability
    return asdict(in_force) | {"maximum_error_probability": None if bound is None else float(bound)}


def shown_settings(project_id: str, known: KnownSettings) -> wire.ProjectSettings:
    """The settings in force."""
    return wire.ProjectSettings(
        project_id=project_id,
        **_shown(known.in_force),
        etag=settings.make_etag(project_id, known.revision),
        changed_at=known.changed_at,
        changed_by=known.changed_by,
        next_action="An owner changes them with PATCH. Send the etag as If-Match, and nothing while it is null.",
    )


def changed(project_id: str, after: ChangedSettings) -> wire.ProjectSettingsChanged:
    """The settings after a change."""
    row = after.row
    return wire.ProjectSettingsChanged(
        project_id=project_id,
        **_shown(after.in_force),
        etag=None if row is None else settings.make_etag(project_id, row.revision),
        changed_at=None if row is None else row.changed_at,
        changed_by=None if row is None else row.changed_by,
        automations_disabled=after.turned_off,
        next_action="Review the automation contract under these settings. Then enable it again."
        if after.turned_off
        else "Nothing to do.",
    )
