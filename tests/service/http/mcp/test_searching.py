"""What `find_operation` looks for, in real operations (G-168)."""

from __future__ import annotations

import pytest

from service.auth.authority import PrincipalKind
from service.http.app import schema_documents
from service.http.mcp import kit
from service.http.mcp.kit import ASKED, MOST_WORDS, WEIGHTS, wanted
from tests.service.test_wordindex import looked_through

QUESTIONS = ("", "usage of my account", "people that a case affects", "leases RUN monitor", "zzz", "le ca st", "é list")


@pytest.mark.parametrize("kind", [PrincipalKind.KEY, PrincipalKind.RUNNER])
def test_each_kind_of_caller_finds_what_is_open_to_it(kind: PrincipalKind) -> None:
    """The best reads for some words, each as it is described."""
    made = kit.make(schema_documents(), "https://service.example")
    index = made.indexes[kind]
    among = [one for one in made.reads.values() if one.is_open_to(kind)]
    shown = [
        (name, one.bound.operation.summary, one.bound.operation.path, described, ASKED.get(name, ""))
        for one in among
        if (name := one.bound.operation.operation_id) and (described := one.described["description"])
    ]
    assert len(index) == len(among) == len(shown)
    for question in QUESTIONS:
        numbers = looked_through(shown, tuple(WEIGHTS.values()), wanted(question), every=False)
        assert [one["operation"] for one in index.find(question, 20)] == [shown[number][0] for number in numbers[:20]]
    assert made.described.keys() == made.reads.keys()


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("how many orders paid", {"query_analytics", "run_query_blueprint"}),
        ("How many orders were paid yesterday?", {"query_analytics", "run_query_blueprint"}),
        ("what share of people signed up", {"query_analytics", "run_query_blueprint"}),
        ("which events are there", {"list_event_names"}),
        ("which users does a case affect", {"list_case_users"}),
    ],
)
def test_a_question_finds_the_read_that_answers_it(question: str, answers: set[str]) -> None:
    """Among the first three, although products name their events as they like."""
    index = kit.make(schema_documents(), "https://service.example").indexes[PrincipalKind.KEY]
    found = index.find(question, 3)
    assert answers <= {one["operation"] for one in found}
    assert all("asked" not in one for one in found)


def test_few_words_of_a_question_count() -> None:
    assert wanted("The a of the CASES") == ["cases"]
    assert len(wanted(" ".join(f"word{number}" for number in range(99)))) == MOST_WORDS
