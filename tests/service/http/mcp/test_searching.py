"""What `find_operation` looks for, in real operations (G-168)."""

from __future__ import annotations

import pytest

from service.auth.authority import PrincipalKind
from service.http.app import schema_documents
from service.http.mcp import kit
from service.http.mcp.kit import MOST_WORDS, WEIGHTS, wanted
from tests.service.test_wordindex import looked_through

QUESTIONS = ("", "usage of my account", "people that a case affects", "leases RUN monitor", "zzz", "le ca st", "é list")


@pytest.mark.parametrize("kind", [PrincipalKind.KEY, PrincipalKind.RUNNER])
def test_each_kind_of_caller_finds_what_is_open_to_it(kind: PrincipalKind) -> None:
    """The best reads for some words, each as it is described."""
    made = kit.make(schema_documents(), "https://service.example")
    index = made.indexes[kind]
    among = [one for one in made.reads.values() if one.is_open_to(kind)]
    shown = [
        (one.bound.operation.operation_id, one.bound.operation.summary, one.bound.operation.path, described)
        for one in among
        if (described := one.described["description"])
    ]
    assert len(index) == len(among) == len(shown)
    for question in QUESTIONS:
        numbers = looked_through(shown, tuple(WEIGHTS.values()), wanted(question), every=False)
        assert [one["operation"] for one in index.find(question, 20)] == [shown[number][0] for number in numbers[:20]]
    assert made.described.keys() == made.reads.keys()


def test_few_words_of_a_question_count() -> None:
    assert wanted("The a of the CASES") == ["the", "cases"]
    assert len(wanted(" ".join(f"word{number}" for number in range(99)))) == MOST_WORDS
