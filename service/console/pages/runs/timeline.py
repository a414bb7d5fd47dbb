"""The timeline of a run. Newest events come first, long pauses are told, and small print is folded away.

Owners and auditors see the events of the run and of its claim. To members the log is closed. Their timeline has
the facts of the run itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from service.console.diagrams.drawing import Passed
from service.console.kit.visit import Json, Visit
from service.console.pages.runs.told import words

SHOWN = 100
FIRST = 50
PAUSE_SECONDS = 600
NEWEST = 2**53 - 1
NOISE = re.compile(r"charged|renewed|progressed")
MICRO = 1_000_000
MOST_FACTS = 5
LONGEST_FACT = 80
LONGEST_WORD = 28


class Moment(NamedTuple):
    """An event of the timeline, with text facts of its payload. Facts of the run itself have the `revision` 0."""

    at: float
    words: str
    topic: str
    actor: str
    stream_id: str
    revision: int
    position: int
    facts: Sequence[tuple[str, str]]
    payload: Any


class Stretch(NamedTuple):
    """One moment, or several folded ones, and the seconds of silence before."""

    moments: Sequence[Moment]
    folded: bool
    pause: float | None


class Timeline(NamedTuple):
    """A page of a timeline, newest first; the position to look before for older events, if any."""

    stretches: Sequence[Stretch]
    older: int | None
    passed: Sequence[Passed]
    complete: bool
    of_log: bool


async def read_timeline(visit: Visit, run: Json, before: int | None) -> Timeline:
    """The timeline of a run, the last events before a position."""
    own, claim, begin = await _pages(visit, run, before or NEWEST)
    if own is None:
        return Timeline(stretches(told_by(run)), None, (), complete=False, of_log=False)
    events = own["events"] if claim is None else sorted([*own["events"], *claim["events"]], key=_position)
    more = len(events) > SHOWN or any(page["next_before"] for page in (own, claim) if page is not None)
    shown = events[-SHOWN:]
    passed = [Passed(event["revision"], event["topic"]) for event in own["events"]]
    if begin is not None and passed:
        first = [Passed(one["revision"], one["topic"]) for one in begin["events"]]
        passed = [*(one for one in first if one.revision < passed[0].revision), *passed]
    complete = [one.revision for one in passed] == list(range(1, len(passed) + 1)) and before is None
    older = shown[0]["position"] if more and shown else None
    return Timeline(stretches([moment_of(event) for event in shown]), older, passed, complete, of_log=True)


async def _pages(visit: Visit, run: Json, before: int) -> Sequence[Json | None]:
    """The last events of the run and of its claim, and the first events of a long run, read at once."""
    last = {"before": before, "limit": SHOWN}
    wanted = [(run["run_id"], last)]
    wanted += [] if run["claim_id"] is None else [(run["claim_id"], last)]
    wanted += [(run["run_id"], {"limit": FIRST})] if run["state_revision"] > SHOWN else []
    found = await asyncio.gather(
        *(visit.try_read("list_stream_events", stream_id=stream, query=query) for stream, query in wanted)
    )
    pages = iter(found)
    own = next(pages)
    claim = None if run["claim_id"] is None else next(pages)
    return own, claim, next(pages, None)


def _position(event: Json) -> int:
    return int(event["position"])


def moment_of(event: Json) -> Moment:
    """An event as a moment."""
    name = re.sub(r"\.v\d+$", "", event["topic"]).partition(".")
    subject = "" if name[0] == "run" else f"{name[0].replace('_', ' ')} "
    return Moment(
        at=event["recorded_at"] / MICRO,
        words=words(f"{subject}{name[2]}"),
        topic=event["topic"],
        actor=event["actor_kind"],
        stream_id=event["stream_id"],
        revision=event["revision"],
        position=event["position"],
        facts=facts_of(event["payload"]),
        payload=event["payload"],
    )


def facts_of(payload: Any) -> list[tuple[str, str]]:
    """Short members of a payload, as text."""
    if not isinstance(payload, dict):
        return []
    plain: dict[str, Any] = {}
    for name, value in payload.items():
        plain |= value if isinstance(value, dict) and name in {"amounts", "verdict"} else {name: value}
    said = [
        (name.replace("_", " "), str(value))
        for name, value in plain.items()
        if isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    ]
    told = [
        (name, value) for name, value in said if not re.search(r"\bat$|sha256| until$|epoch| id$|^generation$", name)
    ]
    return [(name, _shortened(value)) for name, value in told][:MOST_FACTS]


def _shortened(value: str) -> str:
    longest = LONGEST_FACT if " " in value else LONGEST_WORD
    return value if len(value) <= longest else f"{value[: longest - 1]}…"


def stretches(moments: Sequence[Moment]) -> list[Stretch]:
    """The stretches of moments in the order of time. Newest come first, noise is folded, pauses are told."""
    made: list[Stretch] = []
    before: Moment | None = None
    for noisy, group in groupby(moments, key=lambda one: bool(one.revision and NOISE.search(one.topic))):
        together: list[Moment] = []
        for one in group:
            pause = None if before is None else one.at - before.at
            long = pause is not None and pause >= PAUSE_SECONDS
            if not noisy or long or not together:
                together = [one]
                made.append(Stretch(together, noisy, pause if long else None))
            else:
                together.append(one)
            before = one
    turned = [one._replace(moments=one.moments[::-1], folded=one.folded and len(one.moments) > 1) for one in made]
    return turned[::-1]


def told_by(run: Json) -> list[Moment]:
    """The moments in the facts of a run, in the order of time."""
    found: list[tuple[float | None, str, Sequence[tuple[str, str]]]] = [(run["started_at"], "Started", ())]
    for one in run["approvals"]:
        asked = [("action", one["action"]), ("request", one["approval_id"])]
        found += [(one["requested_at"], "Approval requested", asked), (one["decided_at"], words(one["status"]), asked)]
    for one in run["grants"]:
        granted = [("kind", one["kind"]), ("grant", one["grant_id"])]
        found += [
            (one["authorized_at"], "Grant authorized", granted),
            (one["consumed_at"], "Grant consumed", granted),
            (one["settled_at"], "Grant settled", granted),
        ]
    proof, deploy = run["provider_proof"], run["deploy"]
    if proof is not None:
        found.append((proof["recorded_at"], "PR proof recorded", [("observation", proof["observation"])]))
    if deploy is not None:
        found.append((deploy["recorded_at"], "Deploy bound", [("version", deploy["version"])]))
    found.append((run["finished_at"], f"Over: {run['status']}", ()))
    timed = sorted((at, told, facts) for at, told, facts in found if at is not None)
    return [Moment(at, told, "", "", run["run_id"], 0, 0, facts, None) for at, told, facts in timed]
