"""What every release has recorded is read as it was then: its history whole, its states, rows, decisions the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scripts import released_history
from scripts.eventschemas import broken
from scripts.golden import events, lifted
from scripts.released_history import RELEASES, Kept, Result, by_stream, differences, digest, fold, plain
from service.eventstore.read.stored import CHAIN_START
from service.history.audit import check_event
from statemachines.kernel.topics import schemas

NAMES = sorted(path.name for path in RELEASES.iterdir())


@pytest.fixture(scope="module", params=NAMES)
def release(request: pytest.FixtureRequest) -> Path:
    """The folder of a release."""
    return RELEASES / str(request.param)


# ---- histories ----------------------------------------------------------------------------------------------------


def test_a_recorded_history_is_whole(release: Path) -> None:
    """Every hash follows from what was exported, and every chain from its beginning: positions and revisions too."""
    log = released_history.read_history(release)
    assert [event.position for event in log] == list(range(1, len(log) + 1))
    for history in by_stream(log).values():
        chain = CHAIN_START
        for revision, event in enumerate(history, 1):
            assert (event.revision, check_event(event, chain)) == (revision, None)
            chain = event.chain


def test_a_recorded_history_folds_to_what_it_did(release: Path) -> None:
    """Every state, row and decision (P24): without a server, by the machines and read models alone."""
    kept = released_history.read_folded(release)
    assert all(digest(one.value) == one.digest for one in kept)
    assert {one.what.split()[0] for one in kept} == {"state", "row", "decision"}
    assert differences(kept, fold(released_history.read_history(release))) == []


def test_a_recorded_history_has_every_part_of_the_work(release: Path) -> None:
    """It reaches from a person's first key to a verified run: what is not in it is not held by it."""
    found = {event.topic.rpartition(".v")[0] for event in released_history.read_history(release)}
    assert {"person.registered", "project.created", "onboarding.verified", "automation_contract.enabled"} <= found
    assert {
        "case.opened",
        "trigger_receipt.consumed",
        "claim.created",
        "grant.consumed",
        "deploy.recorded",
        "run.verified",
    } <= found


def test_another_fold_is_noticed(release: Path) -> None:
    """A member of one payload is another one: the results that rest on it differ, and no others."""
    kept = released_history.read_folded(release)
    log = released_history.read_history(release)
    at, event = next((at, event) for at, event in enumerate(log) if event.topic.startswith("case.opened."))
    payload = msgspec.json.decode(event.payload or "")
    log[at] = event._replace(payload=msgspec.json.encode(payload | {"fingerprint": "another"}).decode())
    wrong = differences(kept, fold(log))
    assert wrong
    assert all(event.stream_id in line for line in wrong)
    assert differences(kept, fold(one for one in log if one.stream_id != event.stream_id))


class Inner(msgspec.Struct, frozen=True):
    count: int
    added: str = "new"


class State(msgspec.Struct, frozen=True):
    one: Inner
    many: list[Inner]
    named: dict[str, Inner]
    added: int = 7


def test_what_a_later_release_adds_to_a_state_is_no_difference() -> None:
    """Members of structs, however deep; an entry of a list or a map is one, as is whatever is gone."""
    before = {"one": {"count": 1}, "many": [{"count": 2}], "named": {"a": {"count": 3}}}
    kept = [Kept("state x", digest(before), before)]

    def differs(state: State) -> bool:
        return bool(differences(kept, [Result("state x", state)]))

    assert not differs(State(Inner(1), [Inner(2)], {"a": Inner(3)}))
    assert differs(State(Inner(9), [Inner(2)], {"a": Inner(3)}))
    assert differs(State(Inner(1), [Inner(2), Inner(2)], {"a": Inner(3)}))
    assert differs(State(Inner(1), [], {"a": Inner(3)}))
    assert differs(State(Inner(1), [Inner(2)], {"a": Inner(3), "b": Inner(3)}))
    assert differs(State(Inner(1), [Inner(2)], {}))
    assert differences(kept, []) == ["state x is missing"]
    assert plain(State(Inner(1), [], {})) == {"one": {"count": 1, "added": "new"}, "many": [], "named": {}, "added": 7}


# ---- schemas ------------------------------------------------------------------------------------------------------


def test_topics_only_grow_within_a_version(release: Path) -> None:
    """Beside those of each release: no member goes, changes its type, or becomes required."""
    assert broken(released_history.read_schemas(release), schemas(events()), lifted()) == []


OLD: dict[str, Any] = {
    "thing.made.v1": {
        "$ref": "#/$defs/ThingMade",
        "$defs": {
            "ThingMade": {
                "title": "ThingMade",
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "size": {"type": "integer", "default": 1},
                    "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                    "mode": {"enum": ["fast", "slow"]},
                    "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
                    "named": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Part"}},
                },
                "required": ["id", "mode", "parts", "named"],
            },
            "Part": {
                "title": "Part",
                "type": "object",
                "properties": {"of": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}}},
                "required": ["of", "parts"],
            },
        },
    }
}
Change = Callable[[dict[str, Any]], Any]


def made(document: dict[str, Any], name: str = "ThingMade") -> Any:
    return document["thing.made.v1"]["$defs"][name]


def members(document: dict[str, Any], name: str = "ThingMade") -> Any:
    return made(document, name)["properties"]


INCOMPATIBLE: dict[str, Change] = {
    "a topic goes": lambda d: d.clear(),
    "a member goes": lambda d: members(d).pop("size"),
    "a member goes, deep inside": lambda d: members(d, "Part").pop("of"),
    "a member gets another type": lambda d: members(d)["id"].update(type="integer"),
    "a member gets another type, deep inside": lambda d: members(d, "Part")["of"].update(type="integer"),
    "a member may be null": lambda d: members(d).update(id={"anyOf": [{"type": "string"}, {"type": "null"}]}),
    "a member is never null": lambda d: members(d).update(note={"type": "string", "default": None}),
    "a member takes one more kind": lambda d: members(d)["note"]["anyOf"].append({"type": "integer"}),
    "a member takes another kind": lambda d: members(d)["note"]["anyOf"][0].update(type="integer"),
    "a member may have another value": lambda d: members(d)["mode"]["enum"].append("slower"),
    "a value of a member goes": lambda d: members(d)["mode"]["enum"].remove("slow"),
    "a text gets a bound": lambda d: members(d)["id"].update(maxLength=9),
    "a list becomes a list of others": lambda d: members(d)["parts"].update(items={"type": "string"}),
    "a list becomes a map": lambda d: members(d).update(parts=members(d)["named"]),
    "a map becomes a map of others": lambda d: members(d)["named"].update(additionalProperties={"type": "string"}),
    "a map is closed": lambda d: members(d)["named"].update(additionalProperties=False),
    "a member becomes required": lambda d: made(d)["required"].append("size"),
    "a member may be absent": lambda d: made(d)["required"].remove("id"),
    "an absent member means something else": lambda d: members(d)["size"].update(default=2),
    "a required member comes": lambda d: (
        members(d).update(more={"type": "string"}),
        made(d)["required"].append("more"),
    ),
    "a required member comes, deep inside": lambda d: (
        members(d, "Part").update(more={"type": "string"}),
        made(d, "Part")["required"].append("more"),
    ),
}
COMPATIBLE: dict[str, Change] = {
    "nothing": lambda _: None,
    "a topic comes": lambda d: d.update({"thing.broken.v1": d["thing.made.v1"]}),
    "a member comes that may be absent": lambda d: members(d).update(more={"type": "string", "default": ""}),
    "one comes deep inside": lambda d: members(d, "Part").update(more={"type": "string", "default": ""}),
    "a class has another name": lambda d: made(d).update(title="ThingWasMade"),
    "a member has a description": lambda d: members(d)["id"].update(description="which one"),
}


def changed(change: Change) -> dict[str, Any]:
    document = copy.deepcopy(OLD)
    change(document)
    return document


@pytest.mark.parametrize("change", INCOMPATIBLE.values(), ids=INCOMPATIBLE)
def test_every_incompatible_change_of_an_event_is_refused(change: Change) -> None:
    """Each needs another version, and a step that lifts the older one."""
    assert broken(OLD, changed(change), ())


@pytest.mark.parametrize("change", COMPATIBLE.values(), ids=COMPATIBLE)
def test_every_compatible_change_of_an_event_is_taken(change: Change) -> None:
    assert broken(OLD, changed(change), ()) == []


def test_a_version_that_is_lifted_may_go() -> None:
    """Its place is taken by the next one, whose schema is its own."""
    new = {"thing.made.v2": OLD["thing.made.v1"]}
    assert broken(OLD, new, {"thing.made.v1"}) == []
    assert broken(OLD, new, ()) == ["thing.made.v1 is gone, and nothing lifts it"]
