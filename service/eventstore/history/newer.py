"""What the log holds of a later release: the topics that this one cannot read, and the streams that hold them (G-149).

The reactor notes each topic where it meets it first (`topics_met`), so that asking costs a few rows while there is
nothing, and a part of the log while there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from statemachines.kernel.topics import known_topics

LOOKED_THROUGH = 100_000
"""Events after the first unknown one that a count reads at most: it is asked for by health checks."""

UNKNOWN = "select topic, first_position from topics_met where topic <> all(%s::text[]) order by topic"
COUNT = (
    "select count(*) from (select distinct e.project_id, e.stream_id from log_index i join events e on e.seq = i.seq "
    "where i.position between %s::bigint and %s::bigint and e.topic = any(%s::text[])) found"
)


class TopicSearch(NamedTuple):
    """The parameters of COUNT: positions to look through, and topics to look for."""

    first: int
    last: int
    topics: list[str]


def known() -> tuple[list[str]]:
    """The parameters of UNKNOWN. Every machine must have been imported (service/registry.py)."""
    return (known_topics(),)


def asked(unknown: Sequence[tuple[str, int]]) -> TopicSearch:
    """What to count, given the rows of UNKNOWN; there must be some."""
    first = min(position for _, position in unknown)
    return TopicSearch(first, first + LOOKED_THROUGH - 1, [topic for topic, _ in unknown])


def describe(topics: Sequence[str], streams: int) -> str:
    """Say it to an operator."""
    return (
        f"{streams} streams hold events of a later release ({', '.join(topics)}) and answer stream_is_newer: "
        "bring this process to that release"
    )
