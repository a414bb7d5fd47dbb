"""Logs: one JSON object a line on stderr, with the request's id bound to everything logged during it.

No secret and no payload is ever logged. Calls name what they log; below them stand two nets: fields whose names say
that they hold such things are emptied, and an exception shows its type and where it was raised, not its message,
which may quote what a client sent.
"""

import logging
import logging.config
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any

import structlog

QUIET = ("procrastinate", "httpx2", "httpcore2", "asyncio", "_granian")
REMOVED = "[removed]"
SECRET_NAMES = ("authorization", "secret", "password", "token", "api_key", "dsn", "cookie", "payload", "body")

_REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")

EventDict = MutableMapping[str, Any]
Step = Callable[[Any, str, EventDict], EventDict]
"""A step that each line goes through."""


def bind_request(request_id: str) -> None:
    """Begin a request: its id stands in every line logged in this context from now on."""
    _REQUEST_ID.set(request_id)


def configure(level: str, process: str, report: Step | None = None) -> None:
    """Send the logs of this process, ours and the libraries', to stderr. `process` is its role: api, worker, ….

    `report` sees each line last, without messages of exceptions and without secrets.
    """
    structlog.configure(
        processors=[*_shared(process, report), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(stdlib_config(level, process, report))


def stdlib_config(level: str, process: str, report: Step | None = None) -> dict[str, Any]:
    """The same for loggers of libraries, as the dictionary that the logging module and granian take."""
    quiet = "DEBUG" if level == "debug" else "WARNING"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _shared(process, report),
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.JSONRenderer(),
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        # These tell of every job and outgoing request; only their warnings are of use. The driver tells of each try
        # to connect, where eventstore/connect/outage.py tells of the outage.
        "loggers": {
            **{name: {"level": quiet} for name in QUIET},
            "psycopg": {"level": "DEBUG" if level == "debug" else "CRITICAL"},
        },
    }


def _shared(process: str, report: Step | None) -> list[Any]:
    """What is done to every line before it is rendered."""

    def name_process(_: Any, __: str, event: EventDict) -> EventDict:
        event["process"] = process
        return event

    return [
        structlog.contextvars.merge_contextvars,
        name_request,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_process,
        show_exception,
        remove_secrets,
        *([] if report is None else [report]),
    ]


def name_request(_: Any, __: str, event: EventDict) -> EventDict:
    """Say during which request something was logged: found when a line is written, for most requests write none."""
    if request_id := _REQUEST_ID.get():
        event["request_id"] = request_id
    return event


def show_exception(_: Any, __: str, event: EventDict) -> EventDict:
    """Turn exc_info into the exception's type and the places it passed through."""
    found = event.pop("exc_info", None)
    if found is True:
        found = sys.exc_info()
    error = found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)
        event["exception"] = type(error).__qualname__
        event["raised_at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return event


def remove_secrets(_: Any, __: str, event: EventDict) -> EventDict:
    """Empty fields that are named like secrets or payloads, nested ones too."""
    for name, value in event.items():
        if any(word in name.lower() for word in SECRET_NAMES):
            event[name] = REMOVED
        elif isinstance(value, Mapping):
            event[name] = remove_secrets(None, "", dict(value))
    return event
