"""Lists, answers of surveys and one person's records, read from the provider (R-PRV-03, R-CASE-07, G-095).

The provider pages by offset. Its addresses of next pages are neither followed nor shown. What it says is checked for
the members that are shown, and nothing else of it goes on.
"""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from schemas import provider as wire
from service.analytics.connecting.http import failure, fresh, hogql
from service.analytics.queries import QueriesBusy
from service.provider.sources import Exchanges, ProviderSources, Source
from service.sql import load_query
from statemachines.kernel.machine import ReadFailed

# Pages of flags, surveys, experiments and recordings, read from the provider (R-PRV-03, G-095).

T = TypeVar("T", bound=msgspec.Struct)
I = TypeVar("I")  # noqa: E741 - an item

RECORDED_SINCE = "-90d"
"""How far back recordings are looked for, in the provider's words."""
MOST_PERCENT = 100

Scope = Literal["session_recording:read", "feature_flag:read", "survey:read", "experiment:read"]


class Listing(NamedTuple, Generic[I]):
    """A page, and whether there are more."""

    items: list[I]
    more: bool


class _Listed(msgspec.Struct, Generic[T]):
    """The provider's answer to a list."""

    results: list[T]
    next: str | None = None


class _Recording(msgspec.Struct):
    id: str
    start_time: datetime | None = None
    distinct_id: str | None = None
    recording_duration: float = 0


class _Recordings(msgspec.Struct):
    """The provider's answer to a query for recordings."""

    results: list[_Recording]
    has_next: bool = False


class _Group(msgspec.Struct):
    rollout_percentage: float | None = None


class _Filters(msgspec.Struct):
    groups: list[_Group] | None = None


class _Flag(msgspec.Struct):
    id: int
    key: str
    name: str = ""
    active: bool = False
    filters: _Filters | None = None
    created_at: datetime | None = None


class _Question(msgspec.Struct):
    type: str
    question: str = ""
    id: str | None = None
    choices: list[Any] | None = None


class _Survey(msgspec.Struct):
    id: str
    name: str
    questions: list[_Question] | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    created_at: datetime | None = None


class _Variant(msgspec.Struct):
    key: str
    name: str | None = None
    rollout_percentage: float | None = None
    split_percent: float | None = None


class _Parameters(msgspec.Struct):
    feature_flag_variants: list[_Variant] | None = None


class _Experiment(msgspec.Struct):
    id: int
    name: str
    feature_flag_key: str
    status: Literal["draft", "running", "paused", "stopped"]
    parameters: _Parameters | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None


async def recordings_of(
    source: Source, limit: int, offset: int = 0, *, distinct_id: str | None = None
) -> Listing[wire.SessionRecording] | ReadFailed:
    """Read recordings, newest first: of everybody, or of one person."""
    query: dict[str, Any] = {
        "kind": "RecordingsQuery",
        "limit": limit,
        "offset": offset,
        "date_from": RECORDED_SINCE,
        "order": "start_time",
        "order_direction": "DESC",
    }
    if distinct_id is not None:
        query["distinct_ids"] = [distinct_id]
    found = await source.reader.post("query/", fresh(query), _Recordings)
    if isinstance(found, ReadFailed):
        return found
    return Listing([_recording(source, raw) for raw in found.results[:limit]], found.has_next)


async def feature_flags(source: Source, limit: int, offset: int) -> Listing[wire.FeatureFlag] | ReadFailed:
    """Read flags."""
    found = await _list(source, "feature_flags/", _Listed[_Flag], limit, offset)
    return found if isinstance(found, ReadFailed) else Listing([_flag(raw) for raw in found.items], found.more)


async def surveys(source: Source, limit: int, offset: int) -> Listing[wire.Survey] | ReadFailed:
    """Read surveys."""
    found = await _list(source, "surveys/", _Listed[_Survey], limit, offset)
    return found if isinstance(found, ReadFailed) else Listing([_survey(raw) for raw in found.items], found.more)


async def experiments(source: Source, limit: int, offset: int) -> Listing[wire.Experiment] | ReadFailed:
    """Read experiments."""
    found = await _list(source, "experiments/", _Listed[_Experiment], limit, offset)
    return found if isinstance(found, ReadFailed) else Listing([_experiment(raw) for raw in found.items], found.more)


async def _list(source: Source, path: str, shape: type[_Listed[T]], limit: int, offset: int) -> Listing[T] | ReadFailed:
    found = await source.reader.get(f"{path}?{urlencode({'limit': limit, 'offset': offset})}", shape)
    if isinstance(found, ReadFailed):
        return found
    return Listing(found.results[:limit], found.next is not None)


def _recording(source: Source, raw: _Recording) -> wire.SessionRecording:
    return wire.SessionRecording(
        id=raw.id,
        distinct_id=raw.distinct_id,
        started_at=_epoch(raw.start_time),
        duration_seconds=max(0, int(raw.recording_duration)),
        web_ui_url=source.page_of("replay", raw.id),
    )


def _flag(raw: _Flag) -> wire.FeatureFlag:
    return wire.FeatureFlag(
        id=raw.id,
        key=raw.key,
        name=raw.name,
        active=raw.active,
        rollout_percentage=_rollout((raw.filters and raw.filters.groups) or []),
        created_at=_epoch(raw.created_at),
    )


def _rollout(groups: list[_Group]) -> int | None:
    """The share of a flag with one group. A group without a share takes everybody whom its conditions fit."""
    if len(groups) != 1:
        return None
    share = groups[0].rollout_percentage
    return MOST_PERCENT if share is None else min(MOST_PERCENT, max(0, round(share)))


def _survey(raw: _Survey) -> wire.Survey:
    status: wire.SurveyStatus = "draft" if raw.start_date is None else "running" if raw.end_date is None else "complete"
    questions = [
        wire.SurveyQuestion(
            id=asked.id,
            type=asked.type,
            question=asked.question[: wire.MAX_TEXT],
            choices=[choice[: wire.MAX_TEXT] for choice in asked.choices or [] if isinstance(choice, str)],
        )
        for asked in raw.questions or []
    ]
    return wire.Survey(id=raw.id, name=raw.name, status=status, questions=questions, created_at=_epoch(raw.created_at))


def _experiment(raw: _Experiment) -> wire.Experiment:
    variants = (raw.parameters and raw.parameters.feature_flag_variants) or []
    return wire.Experiment(
        id=raw.id,
        name=raw.name,
        status=raw.status,
        feature_flag_key=raw.feature_flag_key,
        variants=[
            wire.ExperimentVariant(
                key=variant.key,
                name=variant.name,
                rollout_percentage=variant.rollout_percentage
                if variant.split_percent is None
                else variant.split_percent,
            )
            for variant in variants
        ],
        started_at=_epoch(raw.start_date),
        ended_at=_epoch(raw.end_date),
    )


def _epoch(at: datetime | None) -> int | None:
    """A time of the provider in epoch seconds. One without an offset is in UTC."""
    if at is None:
        return None
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0, int(aware.timestamp()))


# The answers to one survey and its numbers, from the events that the provider's libraries send (G-095). Answers are
# what people wrote: they are cut to a length, shown as evidence, and instruct nobody.

MOST_ANSWERS = 100
"""Answers of one response, and texts of one answer."""

_RESPONSE = "$survey_response"
_EVENTS = ("survey shown", "survey dismissed", "survey sent")

_RESPONSES = load_query("provider/connected", "survey_responses").text
_STATS = load_query("provider/connected", "survey_stats").text


class SurveyFindings(NamedTuple):
    """The responses to a survey, newest first, and how often it was shown, dismissed and answered."""

    responses: list[wire.SurveyResponse]
    stats: list[wire.SurveyStat]


class _Rows(msgspec.Struct):
    results: list[tuple[str, str, int, str | dict[str, Any]]]


class _Counts(msgspec.Struct):
    results: list[tuple[str, int, int]]


async def findings(source: Source, survey_id: str) -> SurveyFindings | ReadFailed:
    """Read the responses to a survey and its numbers. An unknown survey has none."""
    sent, counted = await asyncio.gather(
        source.reader.post("query/", hogql(_RESPONSES, {"survey": survey_id, "most": wire.MAX_RESPONSES}), _Rows),
        source.reader.post("query/", hogql(_STATS, {"survey": survey_id, "events": list(_EVENTS)}), _Counts),
    )
    if isinstance(sent, ReadFailed):
        return sent
    if isinstance(counted, ReadFailed):
        return counted
    responses = []
    for uuid, person, at, properties in sent.results[: wire.MAX_RESPONSES]:
        answers = _answers(properties)
        if isinstance(answers, ReadFailed):
            return answers
        responses.append(wire.SurveyResponse(id=uuid, distinct_id=person, responded_at=max(0, at), answers=answers))
    numbers = {event: (total, people) for event, total, people in counted.results}
    stats = [
        wire.SurveyStat(event=event, total=numbers[event][0], unique_people=numbers[event][1])  # type: ignore[arg-type]
        for event in _EVENTS
        if event in numbers
    ]
    return SurveyFindings(responses, stats)


def _answers(properties: str | dict[str, Any]) -> list[wire.SurveyAnswer] | ReadFailed:
    """The answers among the properties of an event: under one name for the first question, and one for each other."""
    if isinstance(properties, str):
        try:
            properties = json.loads(properties)
        except (ValueError, RecursionError):
            return failure("malformed")
    if not isinstance(properties, dict):
        return failure("malformed")
    found = [(name, value) for name, value in properties.items() if name.startswith(_RESPONSE) and value is not None]
    return [
        wire.SurveyAnswer(key=name[: wire.MAX_TEXT], answers=_texts(value))
        for name, value in sorted(found)[:MOST_ANSWERS]
    ]


def _texts(value: Any) -> list[str]:
    """The texts of an answer: several for a question with several choices."""
    values = value if isinstance(value, list) else [value]
    return [_text(one)[: wire.MAX_TEXT] for one in values[:MOST_ANSWERS]]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# What a project's provider has of one person, for the summary of that person (R-CASE-07, G-055).

MOST_RECORDINGS = 20


class PersonAtProvider(NamedTuple):
    """The newest recordings of a person, None when they could not be read, and the person's page at the provider."""

    recordings: list[wire.SessionRecording] | None
    web_ui_url: str | None


async def person_at_provider(
    sources: ProviderSources, exchanges: Exchanges, project_id: str, account: str, distinct_id: str, *, locked: bool
) -> PersonAtProvider:
    """Read the recordings of a person. They are raw data, so a `locked` account has none read (G-072)."""
    source = await sources.of_recordings(project_id, account)
    if source is None:
        return PersonAtProvider([], None)
    page = source.page_of("person", distinct_id)
    if locked:
        return PersonAtProvider(None, page)
    if source.lacks("session_recording:read"):
        return PersonAtProvider([], page)
    try:
        async with exchanges.turn(account):
            found = await recordings_of(source, MOST_RECORDINGS, distinct_id=distinct_id)
    except QueriesBusy:
        return PersonAtProvider(None, page)
    return PersonAtProvider(None if isinstance(found, ReadFailed) else found.items, page)
