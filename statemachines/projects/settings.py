"""The settings of a project, changed by its owners (G-202).

One stream a project, beside the stream of the project itself. Its revision is the fence of a change. A member without a
change keeps the default of the project, and new projects begin with stricter defaults than older ones.
"""

from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from schemas.kernel.shape import DefaultLevel, RequiredEvidence
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    require_given,
    require_none,
    require_same,
    transition_table,
)
from statemachines.projects.project import Project


def stream(project_id: str) -> Stream:
    """History of the settings of a project."""
    return Stream(MACHINE, project_id, derived_id("sets", project_id))


class Status(Enum):
    """Whether an owner has ever changed a setting."""

    DEFAULT = "default"
    CHANGED = "changed"


class ProjectSettingsChanged(Event, frozen=True, omit_defaults=True):
    """An owner changed settings. An absent member was left as before."""

    TOPIC = "project_settings.changed.v1"
    changed_by: str
    changed_at: int
    accept_public_events: bool | UnsetType = UNSET
    default_level: DefaultLevel | UnsetType = UNSET
    frame_variables: bool | UnsetType = UNSET
    required_evidence_source: RequiredEvidence | UnsetType | None = UNSET
    maximum_error_probability: str | UnsetType | None = UNSET
    notification_titles: bool | UnsetType = UNSET


TABLE = transition_table(
    Status,
    Status.DEFAULT,
    [
        # event                         from             to
        [ProjectSettingsChanged.TOPIC, Status.DEFAULT, Status.CHANGED],
        [ProjectSettingsChanged.TOPIC, Status.CHANGED, Status.CHANGED],
    ],
)


class Settings(msgspec.Struct, frozen=True):
    """The state for decisions on the settings. None: the default of the project."""

    status: Status = Status.DEFAULT
    revision: int = 0
    accept_public_events: bool | None = None
    default_level: DefaultLevel | None = None
    frame_variables: bool | None = None
    required_evidence_source: RequiredEvidence | None = None
    maximum_error_probability: str | None = None
    notification_titles: bool | None = None


class SettingsWish(msgspec.Struct, frozen=True):
    """The settings to change. An absent one stays as it is."""

    accept_public_events: bool | UnsetType = UNSET
    default_level: DefaultLevel | UnsetType = UNSET
    frame_variables: bool | UnsetType = UNSET
    required_evidence_source: RequiredEvidence | UnsetType | None = UNSET
    maximum_error_probability: str | UnsetType | None = UNSET
    notification_titles: bool | UnsetType = UNSET


class InForce(msgspec.Struct, frozen=True):
    """The settings in force: changes of the owners, and the defaults of the project for the others.

    `frame_variables`: frames of errors keep the values of their variables. `required_evidence_source`: the source of
    the proof without which no contract is enabled. None: any (G-183). `maximum_error_probability`: what the error
    probability of a success must not exceed, a decimal text. None: any (G-173). `notification_titles`: messages to
    chats hold the titles of cases.
    """

    accept_public_events: bool
    default_level: DefaultLevel = "error"
    frame_variables: bool = False
    required_evidence_source: RequiredEvidence | None = None
    maximum_error_probability: str | None = None
    notification_titles: bool = True


class SettingsConflict(Rejection):
    """An event against the table. It never happens, for a setting can be changed at any time."""

    code = "internal_error"


def make_etag(project_id: str, revision: int) -> str | None:
    """Make the quoted tag of a revision; None before the first change."""
    return f'"set:{project_id}:{revision}"' if revision else None


def in_force(state: Settings, project: Project) -> InForce:
    """Find the settings in force."""
    defaults = InForce(project.accept_public_events, project.default_level)
    changes = {name: value for name in InForce.__struct_fields__ if (value := getattr(state, name)) is not None}
    return msgspec.structs.replace(defaults, **changes)


def loosens(before: InForce, after: InForce) -> bool:
    """Whether more automation may begin after a change. An enabled contract was reviewed under less."""
    evidence = before.required_evidence_source is not None and after.required_evidence_source is None
    bound, lifted = before.maximum_error_probability, after.maximum_error_probability
    probability = bound is not None and (lifted is None or float(lifted) > float(bound))
    return evidence or probability or (after.accept_public_events and not before.accept_public_events)


def decide_change(
    state: Settings, project: Project, wish: SettingsWish, *, project_id: str, if_match: str | None, by: str, now: int
) -> list[Event]:
    """Change settings at a revision, given by its tag. A value already in force records nothing.

    Raises IfMatchRequired, PreconditionFailed.
    """
    etag = make_etag(project_id, state.revision)
    if etag is None:
        message = "The settings were never changed. There is nothing to match."
        require_none(if_match, message, "Send the first change without If-Match.")
    else:
        read_first = "Read the settings, decide whether to change them, and send their etag as If-Match."
        given = require_given(if_match, etag, "The settings were changed before. A change needs If-Match.", read_first)
        read_again = "Read the settings again, and retry only if you still want the change."
        require_same(given, etag, "The settings have changed since you read them.", read_again)
    now_in_force = msgspec.structs.asdict(in_force(state, project))
    wanted = {name: value for name, value in msgspec.structs.asdict(wish).items() if value is not UNSET}
    changes = {name: value for name, value in wanted.items() if value != now_in_force[name]}
    return [ProjectSettingsChanged(by, now, **changes)] if changes else []


def evolve(state: Settings, event: ProjectSettingsChanged) -> Settings:
    """Fold a change."""
    return msgspec.structs.replace(
        state, status=Status[destination(TABLE, event, state.status)], revision=state.revision + 1, **changes_of(event)
    )


def changes_of(event: ProjectSettingsChanged) -> dict[str, Any]:
    """The changed settings of an event, by name."""
    return {name: value for name in InForce.__struct_fields__ if (value := getattr(event, name)) is not UNSET}


MACHINE = StateMachine("sets", TABLE, Settings(), evolve, SettingsConflict, Settings, version=4)
