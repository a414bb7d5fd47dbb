"""`python -m scripts.foreign.compare`: the grouping of this checkout beside Sentry's own, without a server.

The events take the way of the Sentry door up to their newest grouping. A project has no older cases and no source maps
here, as in tests/foreign, which sends the same events to a server.
"""

from __future__ import annotations

from scripts.foreign.judging import Assigned, Judgement, judge, report
from scripts.foreign.reference import load
from scripts.foreign.samples import Payload, events, platforms
from scripts.foreign.twins import with_twins
from service.ingest.foreign.common import to_log
from service.ingest.foreign.sentry_event import read_event
from service.ingest.grouping.fingerprint import EventNames, gather, group

_CASES = ("error", "fatal")
_NO_ID = "0" * 32


def assign(payload: Payload) -> Assigned:
    """The newest grouping of an event, which stands for its case. None below error level."""
    log = to_log(read_event(payload, _NO_ID))
    body = log.body
    names = EventNames(body.level, body.environment, body.release, body.tags or {})
    newest = group(gather(body.message, body.extra, client=log.client, names=names))[-1]
    return Assigned(newest.fingerprint if log.body.level in _CASES else None, newest.why)


def compare() -> Judgement:
    """Compare all pairs of events and all twins with the stored reference."""
    found = events()
    cases = {label: assign(payload) for label, payload in with_twins(found).items()}
    return judge(cases, load(), platforms(found))


if __name__ == "__main__":
    print(report(compare()))
