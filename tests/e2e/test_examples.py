"""The examples of the schema document are what a real server takes and answers now (G-166)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from service.http.document.described import Examples
from tests.support.cluster import TestCluster
from tests.support.shown.collecting import Seen, differences
from tests.support.shown.walk import walk

EXAMPLES = Examples()
AT_TIMES = {"/progress"}
"""Members that an answer has only while a deletion still has something left."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> dict[str, list[Seen]]:
    """Every exchange of one walk that succeeded, by operation."""
    found: dict[str, list[Seen]] = defaultdict(list)
    for one in walk(cluster, tmp_path_factory.mktemp("walk")):
        found[one.operation_id].append(one)
    return found


def shown() -> Iterator[tuple[str, str, str]]:
    """Each answer that an example shows."""
    for name in EXAMPLES:
        example = EXAMPLES.of(name)
        assert example is not None
        for status, answers in example["answers"].items():
            for media in answers:
                yield name, status, media


@pytest.mark.parametrize(("name", "status", "media"), list(shown()))
def test_a_real_server_answers_as_the_example_shows(
    seen: dict[str, list[Seen]], name: str, status: str, media: str
) -> None:
    """With the same members of the same kinds, at every depth."""
    example = EXAMPLES.answer(name, status, media)["example"]
    real = [one.answer for one in seen[name] if (str(one.status), one.media) == (status, media)]
    assert real, f"{name} was never answered {status} as {media}"
    nearest = min(([*differences(example, answer)] for answer in real), key=len)
    assert set(nearest) <= AT_TIMES, nearest


@pytest.mark.parametrize("name", [name for name in EXAMPLES if EXAMPLES.body(name)])
def test_a_real_server_takes_a_body_as_the_example_shows(seen: dict[str, list[Seen]], name: str) -> None:
    """Sent with ids and secrets of that server, and accepted."""
    example = EXAMPLES.body(name)["example"]
    real = [one.body for one in seen[name] if one.body is not None]
    assert min(([*differences(example, body)] for body in real), key=len) == []


def test_a_difference_is_noticed() -> None:
    """A member that is gone, new or of another kind, also inside of lists; null and an empty list are of any kind."""
    example = {"a": 1, "b": [{"c": "x"}], "d": None, "e": []}
    assert [*differences(example, {"a": 2.5, "b": [{"c": "y"}], "d": "z", "e": [1]})] == []
    assert [*differences(example, {**example, "a": "1"})] == ["/a"]
    assert [*differences(example, {**example, "b": [{}]})] == ["/b/0/c"]
    assert [*differences(example, {**example, "f": 1})] == ["/f"]
