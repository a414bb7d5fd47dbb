"""What the interface answers to bad requests stays as it is: status, headers and body, and the order of G-007.

`python -m scripts.golden answers` writes it anew, for a change that is meant.
"""

from __future__ import annotations

import pytest

from tests.golden.recorded.keeping import groups, kept_answers, kept_table
from tests.golden.recorded.recording import IN_ORDER, UNMADE, Answers, record
from tests.support.cluster import TestCluster

MOST_SHOWN = 10


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Answers:
    """The answers of now."""
    return record(cluster, tmp_path_factory.mktemp("answers"))


@pytest.mark.parametrize("group", groups())
def test_operations_answer_as_they_did(found: Answers, group: str) -> None:
    """Byte for byte, but for ids and times."""
    kept, texts = kept_table(group), kept_answers()
    assert kept.keys() == set(groups()[group]), "python -m scripts.golden answers"
    changed = [
        f"{name}, {kind}:\n{texts.get(kept[name].get(kind, ''), 'nothing')}\n->\n{answer.text}"
        for name in kept
        for kind, answer in found[name].items()
        if kept[name].get(kind) != answer.name
    ]
    assert not changed, f"{len(changed)} answers are others:\n" + "\n\n".join(changed[:MOST_SHOWN])
    assert {name: kinds.keys() - found[name].keys() for name, kinds in kept.items()} == {name: set() for name in kept}


def test_every_operation_was_asked(found: Answers) -> None:
    """Each was sent bad requests, and one in order unless that ends or moves what the others need."""
    assert {name for name, kinds in found.items() if IN_ORDER not in kinds} == UNMADE
    assert min(len(kinds) for kinds in found.values()) >= 15
    assert len({kind for kinds in found.values() for kind in kinds}) > 100


def test_no_request_fails_the_service(found: Answers) -> None:
    """No answer is a failure of ours."""
    assert not [(name, kind) for name, kinds in found.items() for kind, answer in kinds.items() if answer.status >= 500]
