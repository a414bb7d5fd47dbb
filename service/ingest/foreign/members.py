"""Members of what SDKs send in JSON: each counts where it is of the documented type, and is as if absent where not.

Sentry's and PostHog's SDKs write an exception and its frames alike. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.ingest.foreign.common import ForeignError, Frame

FRAMES = "frames"
"""The member that lists the frames of a stack trace, the latest call last."""
_MAX_NUMBER = 2**31 - 1
_TEXTS = ("filename", "function", "abs_path", "module", "context_line")  # of a frame


def text_of(value: Any) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value else None


def object_of(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def error_of(value: Mapping[str, Any]) -> ForeignError:
    """An exception, whose frames come with the latest call last."""
    frames = object_of(value.get("stacktrace")).get(FRAMES)
    listed = reversed(frames) if isinstance(frames, list) else ()
    return ForeignError(
        type=text_of(value.get("type")),
        value=text_of(value.get("value")),
        frames=[_frame(frame) for frame in listed if isinstance(frame, dict)],
        module=text_of(value.get("module")),
    )


def _frame(frame: Mapping[str, Any]) -> Frame:
    filename, function, abs_path, module, context_line = [
        value if isinstance(value, str) and value else None for value in map(frame.get, _TEXTS)
    ]
    lineno, colno, in_app = frame.get("lineno"), frame.get("colno"), frame.get("in_app")
    return Frame(
        filename,
        function,
        abs_path,
        module,
        None if lineno is None else _number(lineno),
        None if colno is None else _number(colno),
        in_app if isinstance(in_app, bool) else None,
        context_line,
        _lines_of(frame.get("pre_context")),
        _lines_of(frame.get("post_context")),
    )


def _lines_of(value: Any) -> tuple[str, ...]:
    """Lines of source. None unless all are texts."""
    return tuple(value) if isinstance(value, list) and all(isinstance(line, str) for line in value) else ()


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_NUMBER else None
