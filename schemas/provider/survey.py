"""Wire contract of surveys, as the provider keeps them, with the answers to one of them (R-PRV-03, G-095)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.paging import PageQuery
from schemas.kernel.shape import Epoch

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

    project_id: str
    surveys: list[Survey]
    count: int
    next_cursor: str | None
    responses: Annotated[list[SurveyResponse], Meta(max_length=MAX_RESPONSES)] | msgspec.UnsetType = msgspec.UNSET
    stats: list[SurveyStat] | msgspec.UnsetType = msgspec.UNSET
    next_action: str
