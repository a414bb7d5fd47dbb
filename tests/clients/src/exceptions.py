"""A program that reports each of nineteen exceptions to Sentry, PostHog and OpenTelemetry, each by its own SDK."""

import json
import logging
import os
import uuid

import sentry_sdk
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from posthog import Posthog
from sentry_sdk.integrations.logging import LoggingIntegration


class PaymentError(Exception):
    """An exception whose text is none of its arguments."""

    def __init__(self, card: int, reason: str) -> None:
        super().__init__(card, reason)
        self.card, self.reason = card, reason

    def __str__(self) -> str:
        return f"Card {self.card} refused: {self.reason}"


class Shop:
    """A place for methods."""

    class Closed(Exception):
        """A class in another one."""

    def open(self) -> None:
        raise Shop.Closed("The shop is closed")


def value() -> None:
    raise ValueError("bad value")


def key() -> None:
    {}["shop"]


def permission() -> None:
    raise PermissionError(13, "Permission denied", "/etc/shop")


def own_text() -> None:
    raise PaymentError(17, "expired")


def group() -> None:
    raise ExceptionGroup("several things", [ValueError("one"), KeyError("two")])


def chained() -> None:
    try:
        key()
    except KeyError as error:
        raise RuntimeError("the shop is missing") from error


def in_context() -> None:
    try:
        key()
    except KeyError:
        raise LookupError("while looking for the shop")  # noqa: B904 - in the context of the other one


def assertion() -> None:
    assert not os.environ


def parts() -> None:
    raise ValueError(f"order 4711 of {uuid.uuid4()} has 'no card' at 12.5")


def several_lines() -> None:
    raise ValueError("the first line 🎉\n\nTraceback: é\n  the last line")


def very_long() -> None:
    raise ValueError("word " * 6000)


def recursion(depth: int = 0) -> None:
    recursion(depth + 1)


def importing() -> None:
    from json import nothing_of_the_kind  # noqa: F401


def decoding() -> None:
    b"caf\xe9".decode()


def stopping() -> None:
    def numbers():
        yield next(iter(()))

    list(numbers())


def nested() -> None:
    Shop().open()


def in_a_lambda() -> None:
    min([1, 0], key=lambda number: 1 // number)


def in_a_comprehension() -> None:
    [1 // number for number in (1, 0)]


def in_a_library() -> None:
    json.loads('{"shop": ')


RAISING = (
    value,
    key,
    permission,
    own_text,
    group,
    chained,
    in_context,
    assertion,
    parts,
    several_lines,
    very_long,
    recursion,
    importing,
    decoding,
    stopping,
    nested,
    in_a_lambda,
    in_a_comprehension,
    in_a_library,
)

sentry_sdk.init(integrations=[LoggingIntegration(level=None, event_level=None)])
posthog = Posthog(os.environ["POSTHOG_API_KEY"], host=os.environ["POSTHOG_HOST"])
provider = LoggerProvider()
provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
logger = logging.getLogger("shop")
logger.addHandler(LoggingHandler(logger_provider=provider))
for raising in RAISING:
    which = raising.__name__
    try:
        raising()
    except Exception as error:
        with sentry_sdk.new_scope() as scope:
            scope.set_tag("which", which)
            sentry_sdk.capture_exception(error)
        posthog.capture_exception(error, distinct_id="u1", properties={"which": which})
        logger.exception("failed", extra={"which": which})
sentry_sdk.flush(10)
posthog.shutdown()
assert provider.force_flush(10_000)
provider.shutdown()
print(" ".join(raising.__name__ for raising in RAISING))
