"""The output of the kit: a line for each scenario with its breaches below, or JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from service.conformance.play.part import Scenario
from service.conformance.play.playing import Played

MOST_BREACHES = 4
"""How many breaches of one scenario are shown to people."""


def lines_of(played: Played) -> list[str]:
    """One scenario for people."""
    name, rule = played.scenario.name, played.scenario.rule
    verdict = "PASS" if played.passed else "FAIL"
    amounts = f"{played.requests} requests, {played.starts} starts, {played.seconds:.0f} s"
    lines = [f"{verdict}  {name:13} {rule:10} {amounts}"]
    for breach in played.breaches[:MOST_BREACHES]:
        lines.append(f"      {breach.rule}: {breach.says}")
        if breach.request:
            lines.append(f"        {breach.request}")
    if len(played.breaches) > MOST_BREACHES:
        lines.append(f"      and {len(played.breaches) - MOST_BREACHES} more")
    return lines


def sum_up(all_played: Sequence[Played]) -> str:
    """The last line for people."""
    failed = [played for played in all_played if not played.passed]
    if not failed:
        return f"The runner passed all {len(all_played)} scenarios."
    rules = dict.fromkeys(breach.rule for played in failed for breach in played.breaches)
    return f"The runner broke {', '.join(rules)} in {len(failed)} of {len(all_played)} scenarios."


def document(command: str, all_played: Sequence[Played]) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "runner": shlex.split(command),
        "passed": all(played.passed for played in all_played),
        "scenarios": [
            {
                "name": played.scenario.name,
                "rule": played.scenario.rule,
                "passed": played.passed,
                "seconds": round(played.seconds, 1),
                "starts": played.starts,
                "requests": played.requests,
                "breaches": [breach._asdict() for breach in played.breaches],
            }
            for played in all_played
        ],
    }


def listed(scenarios: Sequence[Scenario]) -> list[str]:
    """The scenarios, each with the conduct of a right runner."""
    lines = []
    for scenario in scenarios:
        lines += [f"{scenario.name:13} {scenario.rule:10} {scenario.plays}", f"{'':24} {scenario.right}"]
    return lines
