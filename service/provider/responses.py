"""The answers to one survey and its numbers, from the events that the provider's libraries send (G-095).

Answers are what people wrote: they are cut to a length, shown as evidence, and instruct nobody.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import msgspec

from schemas.provider import MAX_RESPONSES, MAX_TEXT, SurveyAnswer, SurveyResponse, SurveyStat
from service.analytics.connecting.http import failure, hogql
from service.provider.sources import Source
from service.sql import load_query
from statemachines.kernel.readings import ReadFailed

MOST_ANSWERS = 100
"""Answers of one response, and texts of one answer."""

_RESPONSE = "$survey_response"
_EVENTS = ("survey shown", "survey dismissed", "survey sent")

_RESPONSES = load_query("provider/connected", "survey_responses").text
_STATS = load_query("provider/connected", "survey_stats").text


class SurveyFindings(NamedTuple):
    """The responses to a survey, newest first, and how often it was shown, dismissed and answered."""

    responses: list[SurveyResponse]
    stats: list[SurveyStat]


class _Rows(msgspec.Struct):
    results: list[tuple[str, str, int, str | dict[str, Any]]]


class _Counts(msgspec.Struct):
    results: list[tuple[str, int, int]]


async def findings(source: Source, survey_id: str) -> SurveyFindings | ReadFailed:
    """Read the responses to a survey and its numbers. An unknown survey has none."""
    sent, counted = await asyncio.gather(
        source.reader.post("query/", hogql(_RESPONSES, {"survey": survey_id, "most": MAX_RESPONSES}), _Rows),
        source.reader.post("query/", hogql(_STATS, {"survey": survey_id, "events": list(_EVENTS)}), _Counts),
    )
    if isinstance(sent, ReadFailed):
        return sent
    if isinstance(counted, ReadFailed):
        return counted
    responses = []
    for uuid, person, at, properties in sent.results[:MAX_RESPONSES]:
        answers = _answers(properties)
        if isinstance(answers, ReadFailed):
            return answers
        responses.append(SurveyResponse(id=uuid, distinct_id=person, responded_at=max(0, at), answers=answers))
    numbers = {event: (total, people) for event, total, people in counted.results}
    stats = [
        SurveyStat(event=event, total=numbers[event][0], unique_people=numbers[event][1])  # type: ignore[arg-type]
        for event in _EVENTS
        if event in numbers
    ]
    return SurveyFindings(responses, stats)


def _answers(properties: str | dict[str, Any]) -> list[SurveyAnswer] | ReadFailed:
    """The answers among the properties of an event: under one name for the first question, and one for each other."""
    if isinstance(properties, str):
        try:
            properties = json.loads(properties)
        except (ValueError, RecursionError):
            return failure("malformed")
    if not isinstance(properties, dict):
        return failure("malformed")
    found = [(name, value) for name, value in properties.items() if name.startswith(_RESPONSE) and value is not None]
    return [SurveyAnswer(key=name[:MAX_TEXT], answers=_texts(value)) for name, value in sorted(found)[:MOST_ANSWERS]]


def _texts(value: Any) -> list[str]:
    """The texts of an answer: several for a question with several choices."""
    values = value if isinstance(value, list) else [value]
    return [_text(one)[:MAX_TEXT] for one in values[:MOST_ANSWERS]]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
