"""Check the proof of an automation run without the service: `verify_proof.py [FILE]` (standard input without one).

Takes the document of `GET /v1/automation-runs/{run_id}/proof` and recomputes, from nothing but its facts, each
event's payload hash and leaf, each stream's chain from revision 1 to its head, and the links between the streams.
Prints the first thing that is wrong, exit code 1; or the streams and HEADS NOT AUTHENTICATED, exit code 3: what is
shown hangs together. That nothing was cut off the end of a stream, that positions are the log's and that the whole
is not made up, only a signed checkpoint could show, which no document carries yet; 0 is kept for that. Until then
compare the heads with ones noted earlier, or with `service events show`. Needs only the standard library.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FORMAT = "service-run-proof-1"
WHO = {"actor_kind", "actor_id", "event_id", "command_id", "request_id", "correlation_id", "causation_id"}
ENVELOPE = {"project_id", "stream_id", "revision", "kind", "topic", "recorded_at", "payload_hash", *WHO}
EVENT = {*ENVELOPE, "position", "payload", "salt", "leaf", "chain"}
STREAM = {"project_id", "stream_id", "kind", "head", "events"}
DOCUMENT = {"format", "project_id", "run_id", "made_at", "streams", "links", "next_action", "document_sha256"}
OBJECTS = ("receipt", "claim", "run", "automation_run", "approval", "grant", "deploy", "report")
NAMING = {f"{thing}_id" for thing in OBJECTS}
NUMBERS = {"revision", "recorded_at", "made_at"}
START = bytes(32)


class Wrong(Exception):
    """The document differs from what was recorded, or is incomplete."""


def require(condition: object, message: str) -> None:
    """Raise Wrong unless the condition holds."""
    if not condition:
        raise Wrong(message)


def has_members(value: Any, names: set[str], what: str, *inner: str) -> None:
    """Require an object with exactly these members: text or integers (true is none), except for the `inner` ones."""
    require(isinstance(value, dict), f"{what} is not an object")
    odd = sorted(names ^ value.keys())
    require(not odd, f"{what} lacks, or should not have: {', '.join(odd)}")
    for name in sorted(names.difference(inner)):
        kind = int if name in NUMBERS else str
        require(type(value[name]) is kind, f"{what}: {name} is not {'a number' if kind is int else 'text'}")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. A member that comes twice would mean different things to different readers."""
    made = dict(pairs)
    require(len(made) == len(pairs), "an object has a member twice")
    return made


def whole(text: str) -> int:
    """Read a number; only integers occur that every reader holds exactly."""
    require(re.fullmatch(r"0|-?[1-9][0-9]{0,15}", text) and abs(int(text)) < 2**53, "a number is no safe integer")
    return int(text)


def load(data: bytes) -> Any:
    """Parse the document strictly."""
    try:
        text = data.decode("utf-8")
        return json.loads(text, object_pairs_hook=unique, parse_int=whole, parse_float=whole, parse_constant=whole)
    except ValueError as error:
        raise Wrong("this is not a JSON document") from error


def canonical(value: Any) -> bytes:
    """Encode in the RFC 8785 form: without floats, and with ASCII keys, it is JSON sorted and without spaces."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Wrong("half a surrogate pair is not text") from error


def sha256(*parts: bytes) -> bytes:
    """Hash the parts, one after the other."""
    return hashlib.sha256(b"".join(parts)).digest()


def check_event(event: Any, stream: dict[str, Any], revision: int, previous: bytes, place: str) -> bytes:
    """Recompute one event's hashes; returns its chain hash."""
    has_members(event, EVENT, place, "position", "payload")
    for name in ("project_id", "stream_id", "kind"):
        require(event[name] == stream[name], f"{place}: {name} is not that of its stream")
    require(event["revision"] == revision, f"{place}: another revision stands in its place")
    require(isinstance(event["payload"], dict), f"{place}: the payload is missing")
    require(re.fullmatch("([0-9a-f]{2})*", event["salt"]), f"{place}: the salt is not in hex")
    payload_hash = sha256(bytes.fromhex(event["salt"]), canonical(event["payload"])).hex()
    require(event["payload_hash"] == payload_hash, f"{place}: payload, salt or payload_hash was altered")
    leaf = sha256(b"\x00", canonical({name: event[name] for name in ENVELOPE}))
    require(event["leaf"] == leaf.hex(), f"{place}: the envelope or its leaf was altered")
    chain = sha256(b"\x02", previous, leaf)
    require(event["chain"] == chain.hex(), f"{place}: the chain is broken")
    return chain


def check_stream(stream: Any, project_id: str) -> None:
    """Check one stream from its first event to its head."""
    has_members(stream, STREAM, "a stream", "head", "events")
    name, events, head = stream["stream_id"], stream["events"], stream["head"]
    require(isinstance(events, list) and events, f"{name}: it has no events")
    has_members(head, {"revision", "chain"}, f"{name}: its head")
    require(stream["project_id"] == project_id, f"{name}: it belongs to another project")
    chain, last = START, 0
    for revision, event in enumerate(events, 1):
        place = f"{name} revision {revision}"
        chain = check_event(event, stream, revision, chain, place)
        position = event["position"]
        follows = type(position) is int and last is not None and position > last
        require(follows or position is None, f"{place}: its position does not follow the one before it")
        last = position
    require(
        head == {"revision": len(events), "chain": chain.hex()},
        f"{name} revision {len(events)}: this is not its head; events are missing, or the head was altered",
    )


def names_in(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Find every member of a payload that names a stream."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in members:
        inside = f"{path}.{name}" if path else str(name)
        if name in NAMING and item is not None:
            yield inside, item
        elif name in {"expired", "cancelled"} and isinstance(item, list):
            yield from ((f"{inside}.{index}", named) for index, named in enumerate(item))
        else:
            yield from names_in(item, inside)


def check_links(document: dict[str, Any]) -> None:
    """Check that each stream that an event names is there, that all of them hang on the run, and the list of links."""
    run, streams = document["run_id"], {stream["stream_id"]: stream for stream in document["streams"]}
    require(len(streams) == len(document["streams"]), "a stream is there twice")
    require(run in streams, "the run itself is missing")
    require([stream["kind"] for stream in streams.values()].count("run") == 1, "there are several runs")
    links: dict[bytes, str] = {}
    tied: dict[str, set[str]] = {name: set() for name in streams}
    for name, stream in streams.items():
        for event in stream["events"]:
            for member, named in names_in(event["payload"]):
                place = f"{name} revision {event['revision']}: {member}"
                require(isinstance(named, str) and named in streams, f"{place} names {named}, which is missing")
                if named != name:
                    link = {"stream_id": name, "revision": event["revision"], "member": member, "names": named}
                    links[canonical(link)] = place
                    tied[name].add(named)
                    tied[named].add(name)
    reached, queue = {run}, [run]
    while queue:
        new = tied[queue.pop()] - reached
        reached |= new
        queue += new
    for name in streams:
        require(name in reached, f"{name} revision 1: nothing ties this stream to the run")
    require(isinstance(document["links"], list), "links is no list")
    listed = [canonical(link) for link in document["links"]]
    for form, place in links.items():
        require(listed.count(form) == 1, f"{place} is not listed among the links, or twice")
    require(len(listed) == len(links), "a link is listed that no event makes")


def check(document: Any) -> None:
    """Check a whole document. Raises Wrong for the first thing that is wrong."""
    has_members(document, DOCUMENT, "the document", "streams", "links")
    require(document["format"] == FORMAT, f"the format is not {FORMAT}")
    require(isinstance(document["streams"], list), "streams is no list")
    for stream in document["streams"]:
        check_stream(stream, document["project_id"])
    check_links(document)
    digest = sha256(canonical({name: item for name, item in document.items() if name != "document_sha256"}))
    require(document["document_sha256"] == digest.hex(), "document_sha256 is not that of the document")


def main() -> int:
    """Read, check and report; returns the exit code."""
    parser = argparse.ArgumentParser(description="Check the proof of an automation run without the service.")
    parser.add_argument("file", nargs="?", type=Path, help="the document; standard input without it")
    path = parser.parse_args().file
    try:
        document = load(sys.stdin.buffer.read() if path is None else path.read_bytes())
        check(document)
    except (OSError, Wrong, RecursionError) as error:
        print(f"WRONG: {error}")
        return 1
    for stream in document["streams"]:
        print(f"{stream['stream_id']}  revision {stream['head']['revision']}  chain {stream['head']['chain']}")
    print(f"HEADS NOT AUTHENTICATED: {document['run_id']}, {len(document['streams'])} streams that hang together")
    return 3


if __name__ == "__main__":
    sys.exit(main())
