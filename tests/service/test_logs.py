"""Logs are one JSON object a line, carry the request's id, and hold neither secrets nor payloads."""

import json
import subprocess
import sys

LOGGING = """
import logging, sys
import structlog
from service.logs import bind_request, configure
configure(sys.argv[1], "test")
log = structlog.get_logger()
bind_request("req_1")
log.debug("too_quiet")
log.info("said", count=1, api_key="k-secret", nested={"authorization": "k-secret", "fine": 2}, body=b"k-secret")
try:
    raise ValueError("the client sent k-secret")
except ValueError:
    log.exception("failed")
    logging.getLogger("library").error("library failed", exc_info=True)
logging.getLogger("procrastinate").info("Starting job with k-secret")
logging.getLogger("library").warning("library says %s", "this")
"""


def logged(level: str) -> list[dict[str, object]]:
    done = subprocess.run([sys.executable, "-c", LOGGING, level], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "k-secret" not in done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_every_line_is_an_object_with_its_request():
    said, failed, library_failed, library = logged("info")
    for line in (said, failed, library_failed, library):
        assert line["process"] == "test"
        assert line["request_id"] == "req_1"
        assert str(line["timestamp"]).endswith("Z")
    assert (said["event"], said["level"], said["count"]) == ("said", "info", 1)
    assert said["api_key"] == said["body"] == "[removed]"
    assert said["nested"] == {"authorization": "[removed]", "fine": 2}
    assert (library["event"], library["level"]) == ("library says this", "warning")


def test_an_exception_shows_what_and_where_but_not_its_message():
    """A message may quote what a client sent; the type and the place are enough to find the cause."""
    for line in logged("info")[1:3]:
        assert line["exception"] == "ValueError"
        assert line["raised_at"] == ["<string>:11 <module>"]
        assert line["level"] == "error"


def test_the_level_is_respected():
    assert [line["event"] for line in logged("error")] == ["failed", "library failed"]
