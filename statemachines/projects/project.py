"""A project: created, its DSNs rotated, and in the end fenced and purged (R-PROJ, G-023, G-026, G-131, G-184).

The stream's id is the project id. A DSN appears as the SHA-256 of its key; the recoverable copy is a fact outside
the stream, encrypted. One DSN is for servers, the other, the public one, for pages whose source anybody can read.
"""

from enum import Enum

import msgspec

from schemas.kernel.shape import DefaultLevel
from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table


def stream(project_id: str) -> Stream:
    """History of a project."""
    return Stream(MACHINE, project_id, project_id)


class Status(Enum):
    """Where a project stands."""

    ABSENT = "absent"
    ACTIVE = "active"
    FENCED = "fenced"
    PURGED = "purged"


class ProjectCreated(Event, frozen=True, omit_defaults=True):
    """A person made a project. `synthetic`: the person is the identity of a test run.

    Projects from before the public DSN have none, and take its records for as good as others once they get one. In
    those from before `default_level`, it is `error`.
    """

    TOPIC = "project.created.v1"
    name: str
    created_by: str
    synthetic: bool
    dsn_hash: str
    dsn_prefix: str
    created_at: int
    public_dsn_hash: str = ""
    public_dsn_prefix: str = ""
    accept_public_events: bool = True
    default_level: DefaultLevel = "error"


class DsnRotated(Event, frozen=True):
    """The DSN was replaced. The one before is dead from here on (R-PROJ-06)."""

    TOPIC = "project.dsn_rotated.v1"
    dsn_hash: str
    dsn_prefix: str
    rotated_at: int


class PublicDsnRotated(Event, frozen=True):
    """The public DSN was replaced, or is the first one; the one before is dead from here on (G-184)."""

    TOPIC = "project.public_dsn_rotated.v1"
    dsn_hash: str
    dsn_prefix: str
    rotated_at: int


class ProjectFenced(Event, frozen=True):
    """The owner's deletion was accepted."""

    TOPIC = "project.fenced.v1"
    deletion_id: str
    fenced_at: int


class ProjectPurged(Event, frozen=True):
    """The rows of the project go from here on, and its history: it is not there for anybody any more."""

    TOPIC = "project.purged.v1"
    purged_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [ProjectCreated.TOPIC, Status.ABSENT, Status.ACTIVE],
        [DsnRotated.TOPIC, Status.ACTIVE, Status.ACTIVE],
        [PublicDsnRotated.TOPIC, Status.ACTIVE, Status.ACTIVE],
        [ProjectFenced.TOPIC, Status.ACTIVE, Status.FENCED],
        [ProjectPurged.TOPIC, Status.FENCED, Status.PURGED],
    ],
)


class Project(msgspec.Struct, frozen=True):
    """What decisions about a project depend on. Without a public DSN its hash is empty."""

    status: Status = Status.ABSENT
    name: str = ""
    created_by: str = ""
    synthetic: bool = False
    dsn_hash: str = ""
    dsn_prefix: str = ""
    created_at: int = 0
    deletion_id: str = ""
    public_dsn_hash: str = ""
    public_dsn_prefix: str = ""
    accept_public_events: bool = True
    default_level: DefaultLevel = "error"


class ProjectNotFound(Rejection):
    """No such project, none any more, or none that the caller may know of: these look the same (G-007)."""

    code = "project_not_found"


class ProjectDeletionInProgress(Rejection):
    """The deletion fence is committed: nothing that holds authority commits after it (R-ERR-13, G-131)."""

    code = "project_deletion_in_progress"


def check_open(state: Project) -> None:
    """Pass only an active project. Raises ProjectNotFound, ProjectDeletionInProgress."""
    if state.status is Status.FENCED:
        raise ProjectDeletionInProgress(
            "The project is being deleted.", next_action="Stop. The project does not come back."
        )
    if state.status is not Status.ACTIVE:
        raise ProjectNotFound("There is no such project.", next_action="List your projects.")


def decide_rotate(state: Project, dsn_hash: str, dsn_prefix: str, now: int) -> list[Event]:
    """Replace the DSN; the same one again records nothing. Raises ProjectNotFound, ProjectDeletionInProgress."""
    check_open(state)
    return [] if state.dsn_hash == dsn_hash else [DsnRotated(dsn_hash, dsn_prefix, now)]


def decide_rotate_public(state: Project, dsn_hash: str, dsn_prefix: str, now: int) -> list[Event]:
    """Replace the public DSN, or make the first; the same one again records nothing. Raises as `decide_rotate`."""
    check_open(state)
    return [] if state.public_dsn_hash == dsn_hash else [PublicDsnRotated(dsn_hash, dsn_prefix, now)]


def decide_fence(state: Project, deletion_id: str, now: int) -> list[Event]:
    """Accept a deletion; a repeat of the same one records nothing. Raises as `check_open` for any other."""
    if state.deletion_id == deletion_id:
        return []
    check_open(state)
    return [ProjectFenced(deletion_id, now)]


def decide_purge(state: Project, now: int) -> list[Event]:
    """End a deletion; a repeat records nothing. The table refuses it before the fence."""
    return [] if state.status is Status.PURGED else [ProjectPurged(now)]


def evolve(state: Project, event: Event) -> Project:
    """Fold an event of a project."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case ProjectCreated():
            return Project(
                status=status,
                name=event.name,
                created_by=event.created_by,
                synthetic=event.synthetic,
                dsn_hash=event.dsn_hash,
                dsn_prefix=event.dsn_prefix,
                created_at=event.created_at,
                public_dsn_hash=event.public_dsn_hash,
                public_dsn_prefix=event.public_dsn_prefix,
                accept_public_events=event.accept_public_events,
                default_level=event.default_level,
            )
        case DsnRotated():
            return msgspec.structs.replace(state, status=status, dsn_hash=event.dsn_hash, dsn_prefix=event.dsn_prefix)
        case PublicDsnRotated():
            return msgspec.structs.replace(
                state, status=status, public_dsn_hash=event.dsn_hash, public_dsn_prefix=event.dsn_prefix
            )
        case ProjectFenced():
            return msgspec.structs.replace(state, status=status, deletion_id=event.deletion_id)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("proj", TABLE, Project(), evolve, ProjectDeletionInProgress, Project, version=3)
