"""Topics: the stored, versioned names of events, and the steps that bring an old version up to the present one.

Stored bytes never change. An event has one class, that of its latest version; a payload of an older version is lifted
when it is read, one pure step a version: v1 to v2, v2 to v3, and so on. A step stands beside the machine whose event
it lifts:

    @lifts("claim.created.v1")
    def lift_created_v1(payload: Payload) -> Payload:
        return payload | {"priority": 0}

Every reader of the log decodes here and nowhere else. Hashes and exports are made of what is stored, before this.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

Payload = dict[str, Any]
Lift = Callable[[Payload], Payload]

EVENTS: dict[str, type[msgspec.Struct]] = {}
"""The class of each event, by the topic of its latest version."""
LIFTS: dict[str, Lift] = {}
"""The step from each older version to the next one, by the topic that it lifts."""

_TOPIC = re.compile(r"(?P<name>[a-z0-9_]+(?:\.[a-z0-9_]+)*)\.v(?P<version>[1-9][0-9]*)")


class TopicFault(Exception):
    """Declared topics do not fit together: a bug that stops the start. The message names them."""


class UnknownTopic(LookupError):
    """A stored event has a topic that this release does not know: a later release wrote it."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"nobody declared the topic {topic}")
        self.topic = topic


class Topic(NamedTuple):
    """A topic taken apart: the name of the event, and the version of its payload from 1."""

    name: str
    version: int

    def at(self, version: int) -> str:
        """The topic of another version of the same event."""
        return f"{self.name}.v{version}"


def parse_topic(topic: str) -> Topic:
    """Take a topic apart. Raises TopicFault for a text that is none."""
    found = _TOPIC.fullmatch(topic)
    if found is None:
        raise TopicFault(f"{topic} is no topic: a name of words and dots, then .v and the version")
    return Topic(found["name"], int(found["version"]))


def declare(topic: str, event: type[msgspec.Struct]) -> None:
    """Take in the class of an event. Two classes of one version are a bug."""
    known = EVENTS.setdefault(topic, event)
    # A frozen struct with slots is made twice from one declaration; the second one counts.
    if (known.__module__, known.__qualname__) != (event.__module__, event.__qualname__):
        raise TopicFault(f"two events are named {topic}")
    EVENTS[topic] = event


def lifts(topic: str) -> Callable[[Lift], Lift]:
    """Declare the step that lifts a payload of this older version to the next one. It must be pure."""

    def bind(lift: Lift) -> Lift:
        if LIFTS.setdefault(topic, lift) is not lift:
            raise TopicFault(f"two steps lift {topic}")
        return lift

    return bind


def check_topics(
    events: Mapping[str, type[msgspec.Struct]] | None = None, steps: Mapping[str, Lift] | None = None
) -> None:
    """Raise TopicFault unless the versions of each event reach from v1 to its one class without a gap.

    Looks at everything that was declared, unless told otherwise.
    """
    events, steps = EVENTS if events is None else events, LIFTS if steps is None else steps
    latest: dict[str, int] = {}
    for name, version in map(parse_topic, events):
        if latest.setdefault(name, version) != version:
            raise TopicFault(f"{name} has a class for two versions; the older one is lifted instead")
    for name, version in map(parse_topic, steps):
        if version >= latest.get(name, 0):
            raise TopicFault(f"{name}.v{version} is lifted to a version that has no class")
    for name, version in latest.items():
        missing = [older for older in range(1, version) if f"{name}.v{older}" not in steps]
        if missing:
            raise TopicFault(f"nothing lifts {name}.v{missing[0]}, though its latest version is {version}")


def latest_topic(topic: str) -> str:
    """The topic of the latest version of the event that a stored topic names. Raises UnknownTopic."""
    reached = topic
    while reached not in EVENTS:
        if reached not in LIFTS:
            raise UnknownTopic(topic)
        name, version = parse_topic(reached)
        reached = Topic(name, version).at(version + 1)
    return reached


def known_topics() -> list[str]:
    """Every topic that this release can read, in order: the latest versions, and those that are lifted to them."""
    return sorted({*EVENTS, *LIFTS})


def schemas(events: Mapping[str, type[msgspec.Struct]] | None = None) -> dict[str, dict[str, Any]]:
    """The JSON Schema of what is stored under each topic that has a class: under the latest version of each event."""
    declared = EVENTS if events is None else events
    return {topic: msgspec.json.schema(event) for topic, event in sorted(declared.items())}


_Stored = str | bytes
_Lifting = Callable[[Sequence[_Stored]], list[Any]]


@cache
def _direct(topic: str) -> Callable[[_Stored], Any] | None:
    """How a payload of a latest version is read; None for any other topic."""
    return msgspec.json.Decoder(EVENTS[topic]).decode if topic in EVENTS else None


@cache
def _lifting_from(topic: str) -> _Lifting:
    """How payloads of an older version are read, by the steps that lead to the class. Raises UnknownTopic."""
    latest = latest_topic(topic)
    (name, version), (_, reached) = parse_topic(topic), parse_topic(latest)
    return _lifting([LIFTS[f"{name}.v{older}"] for older in range(version, reached)], EVENTS[latest])


def _lifting(steps: Sequence[Lift], event: type[msgspec.Struct]) -> _Lifting:
    """Read by lifting. What was lifted is checked against the class as one list: one by one costs twice as much."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode

    def read(payloads: Sequence[_Stored]) -> list[Any]:
        values = [decode(payload) for payload in payloads]
        for step in steps:
            values = [step(value) for value in values]
        return msgspec.convert(values, list[event])  # type: ignore[valid-type] # known only when it runs

    return read


def decode_event(topic: str, payload: str | bytes) -> Any:
    """Decode a stored payload into the event of its topic, lifted to the latest version. Raises UnknownTopic."""
    decode = _direct(topic)
    return decode(payload) if decode is not None else _lifting_from(topic)((payload,))[0]


def decode_events(topics: Sequence[str], payloads: Sequence[str | bytes | None]) -> list[Any]:
    """Decode many stored payloads, each into the event of its topic, in their order.

    In the place of an erased payload (None) stands None, and in that of an event of a later release its UnknownTopic.
    A rebuild reads all of history by this, so those of one older topic are lifted together.
    """
    events: list[Any] = []
    lifted: dict[str, tuple[list[int], list[_Stored]]] = {}
    for topic, payload in zip(topics, payloads, strict=True):
        decode = _direct(topic)
        if decode is not None and payload is not None:
            events.append(decode(payload))
            continue
        if payload is not None:
            places, texts = lifted.setdefault(topic, ([], []))
            places.append(len(events))
            texts.append(payload)
        events.append(None)
    for topic, (places, texts) in lifted.items():
        for place, event in zip(places, _lifted(topic, texts), strict=True):
            events[place] = event
    return events


def _lifted(topic: str, texts: Sequence[_Stored]) -> list[Any]:
    try:
        return _lifting_from(topic)(texts)
    except UnknownTopic as unknown:
        return [unknown] * len(texts)
