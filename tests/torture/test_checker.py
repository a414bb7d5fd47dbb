"""The checker itself: it accepts a true history, and names each kind of false one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from service.eventstore.log.sequencer import sequence_all
from tests.support.history import Found, Journal, Op, check_all, check_log, check_operations, check_records
from tests.support.rounds import Bench, body, entry_of
from tests.support.toy import REGISTRY, simple_bump

# Imported so that the fixtures are found by name.
from tests.support.toy_fixtures import sql, toys_url  # noqa: F401


def done(number: int, revision: int, at: tuple[int, int], **more: Any) -> Op:
    values = {"outcome": "ok", "status": 200, "revision": revision, "expected": revision - 1, **more}
    return Op(f"op-{number}", "s", invoked=at[0], finished=at[1], **values)


def event(number: int | None, revision: int, position: int | None = None, stream: str = "s") -> Found:
    marker = None if number is None else f"op-{number}"
    return Found(stream, revision, f"cmd_{number}", marker, revision if position is None else position)


TRUE_OPS = [
    done(1, 2, (0, 10)),
    done(2, 3, (5, 20)),
    Op("op-3", "s", expected=1, outcome="fail", status=412, invoked=11, finished=12),
    Op("op-4", "s", expected=3, outcome="info", invoked=21, finished=30),
    Op("op-5", "s", expected=4, outcome="info", invoked=31, finished=40),
]
TRUE_LOG = [event(None, 1), event(1, 2), event(2, 3), event(4, 4)]


def test_a_true_history_is_not_blamed():
    assert check_operations(TRUE_OPS, TRUE_LOG) == []
    assert check_log(TRUE_LOG) == []


@pytest.mark.parametrize(
    ("lie", "blamed"),
    [
        pytest.param(lambda ops, log: log.remove(event(1, 2)), "I1", id="an acknowledged write is lost"),
        pytest.param(lambda ops, log: log.append(event(1, 5)), "I1", id="a write is there twice"),
        pytest.param(lambda ops, log: log.append(event(4, 5)), "I1", id="a doubtful write is there twice"),
        pytest.param(lambda ops, log: log.append(event(3, 5)), "I2", id="a refused write is there"),
        pytest.param(lambda ops, log: log.append(event(9, 5)), "I1", id="a write that nobody asked for"),
        pytest.param(lambda ops, log: ops.append(done(6, 3, (41, 50))), "I1", id="a revision told to two"),
        pytest.param(
            lambda ops, log: (ops.append(done(6, 5, (41, 50))), log.append(event(6, 6))), "I1", id="told another place"
        ),
        pytest.param(
            lambda ops, log: (ops.append(done(6, 5, (41, 50), expected=3)), log.append(event(6, 5))),
            "I1",
            id="a stale fence that let through",
        ),
        pytest.param(
            lambda ops, log: (ops.append(Op("op-6", "s", expected=2, outcome="info")), log.append(event(6, 5))),
            "I3",
            id="a doubtful write past its fence",
        ),
        pytest.param(
            lambda ops, log: (
                ops.extend([done(6, 6, (41, 50)), done(7, 5, (60, 70))]),
                log.extend([event(7, 5), event(6, 6)]),
            ),
            "I5",
            id="time that ran backwards",
        ),
    ],
)
def test_false_answers_are_named(lie: Callable[[list[Op], list[Found]], Any], blamed: str):
    ops, log = list(TRUE_OPS), list(TRUE_LOG)
    lie(ops, log)
    assert any(problem.startswith(blamed) for problem in check_operations(ops, log))


@pytest.mark.parametrize(
    ("log", "blamed"),
    [
        ([event(1, 1), event(2, 3, 2)], "I4"),
        ([event(1, 2, 1)], "I4"),
        ([event(1, 1), event(2, 2, 3)], "I6"),
        ([event(1, 1), Found("s", 2, "c", None, None)], "I6"),
        ([event(1, 1), event(2, 1, 1, "t")], "I6"),
        ([event(1, 1, 2), event(2, 2, 1)], "I7"),
    ],
)
def test_false_logs_are_named(log: Sequence[Found], blamed: str):
    assert any(problem.startswith(blamed) for problem in check_log(log))


def test_a_stored_run_is_checked_from_end_to_end(toys_url: str, sql: Any):  # noqa: F811
    """Records, hashes, rows and rebuilds over a real store; then each of them damaged."""
    bench, journal = Bench(toys_url), Journal()
    for n in range(4):
        op = journal.invoke("toy_1", key=f"k{n}", principal="key:k1")
        entry = entry_of(simple_bump(1, op=op.id, key=op.key))
        [(_, answer)] = bench.run(entry).done
        told = body(answer)
        journal.end(op, "ok", 200, revision=told["revision"], answer=answer.body)
    refused = journal.invoke("toy_1", expected=1, key="refused", principal="key:k1")
    bench.run(simple_bump(1, op=refused.id, key="refused", expected=1))
    journal.end(refused, "fail", 412)
    sequence_all(bench.connection)
    bench.close()

    def blamed() -> set[str]:
        return {problem.split()[0] for problem in check_all(toys_url, journal, REGISTRY, "e.payload->>'op'")}

    assert blamed() == set()
    sql.execute("update toys set total = 99")
    assert blamed() == {"I8", "P8"}
    assert blamed() == set()  # The check has rebuilt it.
    sql.execute("update idempotency set body = '{}' where key = 'k1'")
    assert blamed() == {"I9"}
    sql.execute("delete from idempotency where key = 'k1'")
    assert blamed() == {"I9"}
    sql.execute("delete from idempotency")
    assert len(check_records(sql, journal.ops, [])) == 4
    sql.execute("update stream_heads set revision = 4")
    assert blamed() == {"I9", "I11"}
