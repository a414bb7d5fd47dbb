"""`python -m scripts.foreign.compare`: the grouping of this checkout beside Sentry's own, without a server.

The events take the way of the Sentry door up to their newest grouping. A project has no older cases and no source maps
here, as in tests/foreign, which sends the same events to a server.
"""

from __future__ import annotations

from scripts.foreign.judging import Agreement, Assigned, Pairs, judge_pairs, judge_twins, report
from scripts.foreign.reference import Reference, load
from scripts.foreign.samples import Payload, events
from scripts.foreign.twins import KINDS, twins
from service.ingest.foreign.common import to_log
from service.ingest.foreign.sentry_event import read_event
from service.ingest.grouping.evidence import gather
from service.ingest.grouping.fingerprint import group

_CASES = ("error", "fatal")
_NO_ID = "0" * 32


def assign(payload: Payload) -> Assigned:
    """The newest grouping of an event, which stands for its case. None below error level."""
    log = to_log(read_event(payload, _NO_ID))
    newest = group(gather(log.body.message, log.body.extra, client=log.client))[-1]
    return Assigned(newest.fingerprint if log.body.level in _CASES else None, newest.why)


def compare(reference: Reference) -> tuple[Pairs, dict[str, Agreement]]:
    """Compare all pairs of events, and the twins of each kind."""
    found = events()
    platforms = {name: str(payload.get("platform")) for name, payload in found.items()}
    pairs = judge_pairs({name: assign(payload) for name, payload in found.items()}, reference, platforms)
    cases = {kind: {} for kind in KINDS}
    for twin in twins(found):
        cases[twin.kind][twin.name] = (assign(twin.before), assign(twin.after))
    return pairs, {kind: judge_twins(of_kind, reference.twins[kind], platforms) for kind, of_kind in cases.items()}


if __name__ == "__main__":
    print(report(*compare(load())))
