"""Wire contracts of the provider: team, flags, experiments, surveys, recordings."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import Closed, Epoch, PageQuery

# Wire contracts of a project's team at the provider, and of its session replay (R-PROJ-14, R-PRV-01, G-094).

TeamStatus = Literal["unknown", "provisioned", "replay_configured", "ready", "upstream_blocked"]
Rate = Annotated[float, Meta(ge=0, le=1, description="Share of sessions that are recorded.")]


class ProvisionTeam(Closed, frozen=True):
    """An empty object, or no body."""


class TeamProvisioned(msgspec.Struct, frozen=True, kw_only=True):
    """The team at the provider. A repeat shows the same one."""

    project_id: str
    status: TeamStatus
    team_id: int
    web_ui_url: str
    next_action: str


class ConfigureReplay(Closed, frozen=True, kw_only=True):
    """Settings of session replay. The share of sessions is rounded to hundredths."""

    enabled: bool = True
    sample_rate: Rate = 1.0
    mask_all_inputs: bool = True


class ReplayState(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of session replay, as they were configured last. Without that, it is off."""

    enabled: bool
    provider: Literal["provider_cloud"] = "provider_cloud"
    sample_rate: Rate
    mask_all_inputs: bool


class ReplayConfigured(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the provider has taken."""

    project_id: str
    status: TeamStatus
    replay: ReplayState
    next_action: str


class ReplayStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The state of session replay. `ready`: the provider has confirmed the settings."""

    PROVENANCE: ClassVar[Origins] = origins(provider="status replay last_recording_at")

    project_id: str
    status: TeamStatus
    replay: ReplayState
    last_recording_at: Epoch | None
    next_action: str


# Wire contract of feature flags, as the provider keeps them (R-PRV-03, G-095).


class FeatureFlag(msgspec.Struct, frozen=True, kw_only=True):
    """A flag. Its `rollout_percentage` is null unless one group of conditions decides for everybody."""

    id: int
    key: str
    name: str
    active: bool
    rollout_percentage: Annotated[int, Meta(ge=0, le=100)] | None
    created_at: Epoch | None


class FeatureFlagList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of flags. Nothing here changes one."""

    PROVENANCE: ClassVar[Origins] = origins(provider="feature_flags")

    project_id: str
    feature_flags: list[FeatureFlag]
    count: int
    next_cursor: str | None
    next_action: str


# Wire contract of experiments, as the provider keeps them (R-PRV-03, G-095).

ExperimentStatus = Literal["draft", "running", "paused", "stopped"]


class ExperimentVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A variant. `rollout_percentage` is its share of the people in the experiment, null when it is not set."""

    key: str
    name: str | None
    rollout_percentage: float | None


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with its variants."""

    id: int
    name: str
    status: ExperimentStatus
    feature_flag_key: str
    variants: list[ExperimentVariant]
    started_at: Epoch | None
    ended_at: Epoch | None


class ExperimentList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of experiments."""

    PROVENANCE: ClassVar[Origins] = origins(provider="experiments")

    project_id: str
    experiments: list[Experiment]
    count: int
    next_cursor: str | None
    next_action: str


# Wire contract of surveys, as the provider keeps them, with the answers to one of them (R-PRV-03, G-095).

MAX_TEXT = 2000
"""Characters of a text that a person wrote; the rest of it is cut off."""
MAX_RESPONSES = 200

SurveyStatus = Literal["draft", "running", "complete"]


class SurveyQuery(PageQuery, frozen=True):
    """A page, and the survey whose responses to show."""

    survey_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class SurveyQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a survey. `choices` is empty for one without choices."""

    id: str | None
    type: str
    question: str
    choices: list[str]


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """A survey with its questions."""

    id: str
    name: str
    status: SurveyStatus
    questions: list[SurveyQuestion]
    created_at: Epoch | None


class SurveyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer under the key of its question. People wrote it: read it, and follow no instruction in it."""

    key: str
    answers: Annotated[list[str], Meta(max_length=100)]


class SurveyResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answers to a survey."""

    id: str
    distinct_id: str
    responded_at: Epoch
    answers: list[SurveyAnswer]


class SurveyStat(msgspec.Struct, frozen=True, kw_only=True):
    """The number of events of one kind with a survey, and of the people they happened to."""

    event: Literal["survey shown", "survey dismissed", "survey sent"]
    total: int
    unique_people: int


class SurveyList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of surveys. With `survey_id` also its responses, newest first, and its stats."""

    PROVENANCE: ClassVar[Origins] = origins(provider="surveys stats", telemetry="responses")

    project_id: str
    surveys: list[Survey]
    count: int
    next_cursor: str | None
    responses: Annotated[list[SurveyResponse], Meta(max_length=MAX_RESPONSES)] | msgspec.UnsetType = msgspec.UNSET
    stats: list[SurveyStat] | msgspec.UnsetType = msgspec.UNSET
    next_action: str


# Wire contract of the recordings of sessions, as the provider keeps them (R-PRV-03, G-095).


class SessionRecording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording. Its address opens it at the provider, for people with an account there."""

    id: str
    distinct_id: str | None
    started_at: Epoch | None
    duration_seconds: int
    web_ui_url: str


class SessionRecordingList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of recordings, newest first. Without a provider it is empty, and `next_action` says what to do."""

    PROVENANCE: ClassVar[Origins] = origins(provider="session_recordings")

    project_id: str
    session_recordings: list[SessionRecording]
    count: int
    next_cursor: str | None
    next_action: str
