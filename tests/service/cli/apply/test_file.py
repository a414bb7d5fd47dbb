"""The file of a contract: its lines, and what is no contract."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.contracts.contract import MAX_CONTRACT_BYTES
from service.cli.apply.file import BadFile, lines_of, read

TEXT = """{
  "policy_version": 2,
  "automations": [
    {"bindings": {
      "a,b": ["x", "]", {"n": 1}],
      "name": "say \\"hi\\": {"
    }},
    [],
    null
  ]
}
"""


def test_each_member_has_its_line() -> None:
    assert lines_of(TEXT) == {
        "": 1,
        "policy_version": 2,
        "automations": 3,
        "automations[0]": 4,
        "automations[0].bindings": 4,
        "automations[0].bindings.a,b": 5,
        "automations[0].bindings.a,b[0]": 5,
        "automations[0].bindings.a,b[1]": 5,
        "automations[0].bindings.a,b[2]": 5,
        "automations[0].bindings.a,b[2].n": 5,
        "automations[0].bindings.name": 6,
        "automations[1]": 8,
        "automations[2]": 9,
    }
    file = read(TEXT.encode())
    assert file.line_of("automations[0].bindings.missing.deeper") == 4
    assert file.line_of("elsewhere[3]") == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=4))
def test_the_lines_are_those_of_the_written_members(document: dict[str, object]) -> None:
    """Written with a member a line, each member of the top stands on its own line."""
    text = json.dumps(document, indent=1)
    written = text.splitlines()
    for name in document:
        assert written[lines_of(text)[name] - 1].startswith(f' "{name}":')


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ":1:1: is not JSON"),
        (b'{"a": 1,\n}', ":"),
        (b"\n\xff", ":2: is not UTF-8"),
        (b"[]", ": must be an object"),
        (b'{"a": 1, "a": 1}', ': names "a" twice'),
        (b'{"a": NaN}', ": has NaN"),
        (b'{"a":' + b"[" * 100_000, ": is nested too deeply"),
        (b" " * MAX_CONTRACT_BYTES + b"{}", ": has more than 262144 bytes"),
    ],
)
def test_anything_else_is_no_contract(content: bytes, said: str) -> None:
    with pytest.raises(BadFile) as refused:
        read(content)
    assert str(refused.value).startswith(said)
