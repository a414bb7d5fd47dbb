"""Events of all SDKs have one form, and one exception is one case whoever reports it (G-142, G-031)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.cases.log import MAX_EXTRA_BYTES, MAX_INGEST_BYTES, LogEvent
from schemas.onboarding import PROOF_PROPERTY
from service.ingest.bounds import MOST_OF_EVENT, MOST_OF_TAGS, MOST_OF_TEXT, most_of
from service.ingest.foreign.common import (
    MAX_FRAMES,
    NO_MESSAGE,
    ForeignError,
    ForeignEvent,
    Frame,
    file_of,
    function_of,
    is_own,
    to_log,
)
from service.ingest.foreign.sentry_event import KEPT
from service.ingest.grouping.fingerprint import gather, group
from service.ingest.items import Item, LogRow, Sender, take_log
from service.ingest.scrubbing import Scrubber
from service.packing import unpack

NATIVE = {
    "type": "PaymentError",
    "frames": [{"file": "pay.py", "function": "charge", "line": 3, "in_app": True}],
}
SPELLINGS = [
    Frame("shop/pay.py", "Shop.charge", "/srv/releases/17/shop/pay.py", in_app=True),
    Frame("/srv/app/shop/pay.py", "charge"),
    Frame(r"C:\app\pay.py", "async Object.charge [as pay]"),
    Frame("https://shop.example/static/pay.py?v=3", "new charge", in_app=True),
    Frame("app:///dist/pay.py", "outer.<locals>.charge"),
]


@pytest.mark.parametrize("frame", SPELLINGS)
def test_one_exception_is_one_case_whoever_reports_it(frame: Frame) -> None:
    """However an SDK spells its file and its function; frames of libraries above it do not count."""
    library = Frame("requests/api.py", "get", "/usr/lib/python3.11/site-packages/requests/api.py")
    event = ForeignEvent("error", errors=[ForeignError("PaymentError", "Card 17 refused", [library, frame])])
    body = to_log(event).body
    native = group(gather("Card 17 refused", {"exception": NATIVE}))
    assert group(gather(body.message, body.extra)) == native


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("assets/index-Diw9gTda.js", "index.js"),
        ("static/main.3f2a1c99.js", "main.js"),
        ("index-payments.js", "index-payments.js"),
        ("app.js#L3", "app.js"),
        ("https://shop.example/", ""),
        ("<string>", "<string>"),
        (None, ""),
    ],
)
def test_names_of_files(path: str | None, file: str) -> None:
    """A bundler's hash would make each release another case."""
    assert file_of(Frame(path, None)) == file


@pytest.mark.parametrize(
    ("symbol", "function"),
    [("Object.<anonymous>", ""), ("?", ""), (None, ""), ("f.<locals>.<lambda>", "<lambda>"), ("<module>", "<module>")],
)
def test_names_of_functions(symbol: str | None, function: str) -> None:
    assert function_of(Frame(None, symbol)) == function


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/srv/app/node_modules/express/lib/router.js", False),
        ("node:internal/timers", False),
        ("/usr/lib/python3.11/json/decoder.py", False),
        ("<frozen importlib._bootstrap>", False),
        ("/srv/app/server.js", True),
        (None, False),
    ],
)
def test_own_code_is_told_by_its_place(path: str | None, own: bool) -> None:
    """Where the SDK does not say; what it says counts."""
    assert is_own(Frame(path, "f")) is own
    assert is_own(Frame(path, "f", in_app=not own)) is not own


def test_what_does_not_fit_is_cut_or_left_out() -> None:
    """A log event of these bounds comes out whatever goes in, and says what is missing."""
    frames = [Frame("f" * 9000 + ".py", "g" * 9000, lineno=n, in_app=True) for n in range(5000)]
    event = ForeignEvent(
        "FATAL",
        errors=[ForeignError("T" * 9000, "v" * 9000, frames)] * 50,
        environment="e" * 300,
        release="r" * 300,
        user={"email": "m" * 999, "id": None},
        tags={**{f"tag {n}": n for n in range(80)}, "t" * 300: "v" * 900, PROOF_PROPERTY: "marker"},
        more={"contexts": {"a": "x" * 70_000}, "breadcrumbs": [1]},
    )
    log = to_log(event).body
    assert (len(log.message), log.level) == (8192, "fatal")
    assert (len(log.environment or ""), len(log.release or "")) == (100, 200)
    assert log.user is not None
    assert (len(log.user.id), len(log.user.email or "")) == (200, 320)
    assert log.tags is not None
    assert (len(log.tags), log.tags[PROOF_PROPERTY]) == (50, "marker")
    assert log.extra is not None
    assert (log.extra["left_out"], log.extra["breadcrumbs"]) == (["tags", "contexts"], [1])
    assert len(msgspec.json.encode(log.extra)) <= MAX_EXTRA_BYTES
    exception = log.extra["exception"]
    assert 0 < len(exception["frames"]) <= MAX_FRAMES
    assert exception["frames_left_out"] == 5000 - len(exception["frames"])
    assert exception["frames"][0]["lineno"] == 0


# Texts that grow as they are written, and that a name or a form has hidden behind a longer mark.
UNITS = st.sampled_from(["x", "\u0001", '"', "\u6f22", "pin", "Basic dXNlcjpwYXNzd29yZDEyMw== "])
LARGE = st.builds(lambda unit, count: unit * count, UNITS, st.sampled_from([1, 400, 9_000, 40_000]))
MANY = st.builds(lambda name, count: {f"{name}{n}": [name] for n in range(count)}, UNITS, st.sampled_from([1, 4_000]))
PINS = st.builds(lambda count: {"pin": ["1"] * count, "note": "n"}, st.sampled_from([1, 4_900]))
VALUES = st.recursive(
    LARGE | MANY | PINS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(UNITS, inner, max_size=4),
    max_leaves=6,
)
SENT = dict.fromkeys((*KEPT, "breadcrumbs", "message"), VALUES)


def size_of(value: Any) -> int:
    return len(msgspec.json.encode(value))


@given(
    more=st.fixed_dictionaries({}, optional=SENT),
    tags=st.dictionaries(LARGE, LARGE, max_size=60),
    said=LARGE,
    frames=st.sampled_from([0, 2, 300]),
)
def test_each_member_and_all_of_an_event_are_bounded_in_bytes(
    more: dict[str, Any], tags: dict[str, str], said: str, frames: int
) -> None:
    """Whatever is not as it was sent is named. Nothing that has room goes for what has none."""
    frame = Frame("a.py", "f", in_app=True, variables={f"v{n}": said for n in range(9)}, pre_context=(said,) * 5)
    errors = [ForeignError("E", said, [frame] * frames)]
    taken = to_log(ForeignEvent("error", said, errors, user={"id": said}, tags=tags, more=more), variables=True)
    extra = taken.body.extra
    assert extra is not None
    told = extra.get("left_out", [])
    for name, sent in more.items():
        assert extra.get(name) == sent or name in told
        assert size_of(extra.get(name)) <= most_of(name, sent)
    assert size_of(extra) <= MAX_EXTRA_BYTES
    assert size_of(taken.body.tags) <= MOST_OF_TAGS
    assert taken.body.tags == {name: value for name, value in tags.items() if name} or "tags" in told
    sender = Sender("proj_1", "hash", "req_1", None, "", frame_variables=True)
    item = Item("op", sender, taken.body, taken.raw)
    item.prepare(Scrubber())
    assert stored_size(item) <= MOST_OF_EVENT


def stored_size(item: Item) -> int:
    """The bytes of an error as it is stored."""
    row = item.row
    assert isinstance(row, LogRow)
    extra = row.extra if row.packed is None else unpack(row.packed)
    return size_of((row.message, row.environment, row.release, row.user_data, row.tags, extra))


@pytest.mark.parametrize("count", [100, 4_600])
def test_a_native_event_is_cut_where_its_marks_are_longer_than_its_secrets(count: int) -> None:
    """One that is within its bound as it is sent, and is not once it is scrubbed; the person stays."""
    user = {"pin": ["1"] * count, "note": "\u6f22" * 60_000, "id": "u1"}
    body = {"message": "m", "level": "error", "user": user, "tags": {"a": "b"}, "extra": {"c": "x" * 60_000}}
    raw = msgspec.json.encode(body)
    assert len(raw) <= MAX_INGEST_BYTES
    item = take_log(Sender("proj_1", "hash", "req_1", None, ""), msgspec.json.decode(raw, type=LogEvent), raw)
    item.prepare(Scrubber())
    row = item.row
    assert isinstance(row, LogRow)
    extra = row.extra if row.packed is None else unpack(row.packed)
    assert stored_size(item) <= MOST_OF_EVENT
    assert (row.user_id, row.tags, row.user_data and row.user_data["id"]) == ("u1", {"a": "b"}, "u1")
    assert extra.get("left_out") == (["user_data"] if count > 100 else None)


def test_of_what_is_too_large_the_begin_stays() -> None:
    """Of breadcrumbs the end, which is nearest to the error."""
    crumbs = [{"message": f"{number} {'x' * 3_000}"} for number in range(30)]
    contexts = {"runtime": {"name": "go"}, "os": {"kernel": "k" * 50_000}, "app": {"name": "shop"}}
    event = ForeignEvent("error", "m", more={"transaction": "t" * 9_000, "contexts": contexts, "breadcrumbs": crumbs})
    extra = to_log(event).body.extra
    assert extra is not None
    assert extra["left_out"] == ["transaction", "contexts", "breadcrumbs"]
    assert extra["contexts"]["runtime"] == {"name": "go"}
    assert 30_000 < len(extra["contexts"]["os"]["kernel"]) < 50_000
    whole = extra["breadcrumbs"][1:]
    assert whole == crumbs[-len(whole) :]
    assert len(whole) >= 5
    assert extra["transaction"] == "t" * (MOST_OF_TEXT - 2)


@pytest.mark.parametrize(
    "user",
    [
        {"ip_address": "{{auto}}"},  # JavaScript, Java, Dart
        {"id": None, "ip_address": " {{ auto }} "},
        {"id": "[Filtered]", "email": "[Filtered]", "ip_address": "[Filtered]"},  # Python, Ruby
        {"id": "undefined", "username": "null"},  # browsers
        {"id": "<nil>", "ip_address": "0.0.0.0"},  # Go  # noqa: S104
        {"id": "(null)", "username": "********", "ip_address": "::"},  # Objective-C
        {"id": "%!s(<nil>)", "email": "[object Object]", "username": float("nan")},
    ],
)
def test_a_placeholder_of_an_sdk_is_no_person(user: dict[str, Any]) -> None:
    taken = to_log(ForeignEvent(level="error", message="m", user=user))
    assert taken.body.user is None
    assert "user" not in msgspec.json.decode(taken.raw)


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ({"id": 7, "ip_address": "{{auto}}"}, {"id": "7"}),
        ({"username": "ada", "email": "[Filtered]"}, {"id": "ada", "username": "ada"}),
        ({"id": "null", "email": "a@b.example"}, {"id": "a@b.example", "email": "a@b.example"}),
        ({"id": "{{auto}}", "ip_address": "192.0.2.1"}, {"id": "192.0.2.1", "ip_address": "192.0.2.1"}),
        ({"id": "nullius", "username": "[ada]"}, {"id": "nullius", "username": "[ada]"}),
    ],
)
def test_beside_placeholders_a_person_is_who_is_named(user: dict[str, Any], shown: dict[str, str]) -> None:
    taken = to_log(ForeignEvent(level="error", message="m", user=user))
    assert taken.body.user is not None
    assert taken.body.user.id == shown["id"]
    assert msgspec.json.decode(taken.raw)["user"] == shown


def test_lines_of_source_take_what_room_is_left() -> None:
    """Without room lines go first, those of the earliest calls before the others; nothing else is lost for them."""
    lines = ("x" * 400,) * 5
    bare = [Frame("a.py", "f", lineno=number) for number in range(MAX_FRAMES)]
    frames = [frame._replace(pre_context=lines, post_context=lines) for frame in bare]
    more = {"contexts": {"a": "x" * 20_000}, "breadcrumbs": [1]}

    def extra_of(frames: list[Frame]) -> dict[str, Any]:
        extra = to_log(ForeignEvent("error", errors=[ForeignError("E", "v", frames)] * 2, more=more)).body.extra
        assert extra is not None
        assert len(msgspec.json.encode(extra)) <= MAX_EXTRA_BYTES
        return extra

    with_lines = extra_of(frames)
    shown = with_lines["exception"]["frames"]
    having = ["pre_context" in frame for frame in shown]
    assert having == sorted(having, reverse=True)
    assert 0 < having.count(True) < len(having) == MAX_FRAMES
    assert shown[0]["pre_context"] == shown[0]["post_context"] == list(lines)
    for frame in shown:
        frame.pop("pre_context", None)
        frame.pop("post_context", None)
    assert with_lines == extra_of(bare)


def test_an_event_that_says_nothing() -> None:
    """Is a log event all the same: nothing is lost for being odd."""
    log = to_log(ForeignEvent(None)).body
    assert (log.message, log.level, log.user, log.tags) == (NO_MESSAGE, "error", None, {})
    assert to_log(ForeignEvent("error", errors=[ForeignError("Timeout", "")])).body.message == "Timeout"


TEXT = st.one_of(st.none(), st.text(max_size=300))
LINES = st.lists(st.text(max_size=300), max_size=8).map(tuple)
VALUE: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=8,
)
ERROR = st.builds(
    ForeignError,
    TEXT,
    TEXT,
    st.lists(
        st.builds(
            Frame,
            TEXT,
            TEXT,
            TEXT,
            TEXT,
            pre_context=LINES,
            post_context=LINES,
            variables=st.none() | st.dictionaries(st.text(), VALUE, max_size=3),
        ),
        max_size=5,
    ),
    TEXT,
    st.none(),
)
EVENT = st.builds(
    ForeignEvent,
    level=TEXT,
    message=TEXT,
    errors=st.lists(ERROR, max_size=3),
    environment=TEXT,
    release=TEXT,
    user=st.one_of(st.none(), st.dictionaries(st.sampled_from(["id", "email", "username", "x"]), VALUE)),
    tags=st.dictionaries(st.text(), VALUE, max_size=3),
    images=st.just(()),
    older=st.none(),
    more=st.dictionaries(st.sampled_from(["contexts", "request"]), VALUE),
)


@given(event=EVENT)
def test_whatever_an_sdk_sends_becomes_a_log_event(event: ForeignEvent) -> None:
    """Of the declared form, with a text that says the same."""
    log = to_log(event)
    assert msgspec.json.decode(log.raw, type=LogEvent) == log.body


_TEXTS = st.text(max_size=12)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_FRAMES = st.builds(
    Frame, _TEXTS | st.none(), _TEXTS | st.none(), lineno=st.integers(0, 9) | st.none(), variables=st.none()
)
_ERRORS = st.builds(
    ForeignError, _TEXTS | st.none(), _TEXTS | st.none(), st.lists(_FRAMES, max_size=3), mechanism=st.none()
)


@given(
    event=st.builds(
        ForeignEvent,
        _TEXTS | st.none(),
        _TEXTS | st.none(),
        st.lists(_ERRORS, max_size=3),
        environment=_TEXTS | st.none(),
        release=_TEXTS | st.none(),
        user=st.dictionaries(st.sampled_from(["id", "email", "name", "x"]), _VALUES) | st.none(),
        tags=st.dictionaries(_TEXTS | st.just(PROOF_PROPERTY), _VALUES, max_size=4),
        older=st.none(),
        images=st.lists(st.dictionaries(_TEXTS, _TEXTS, max_size=2), max_size=2),
        more=st.dictionaries(_TEXTS.filter(lambda name: name not in {"exception", "debug_meta"}), _VALUES, max_size=4),
    )
)
def test_the_text_is_that_of_the_event(event: ForeignEvent) -> None:
    """Whoever reads the text finds the event, as if it had come by itself."""
    body, raw, *_ = to_log(event)
    assert msgspec.json.decode(raw, type=LogEvent) == body


def test_what_is_shown_of_a_frame_is_each_events_own() -> None:
    """Frames are remembered; what is hidden in one event is not in another."""
    event = ForeignEvent("error", errors=[ForeignError("E", "v", [Frame("a.py", "f")])])
    first, second = (to_log(event).body.extra or {} for _ in range(2))
    first["exception"]["frames"][0]["file"] = "hidden"
    assert second["exception"]["frames"][0]["file"] == "a.py"
