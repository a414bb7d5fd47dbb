"""The first handler of CONTRIBUTING answers, and refuses what it should, as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from litestar.testing import TestClient

from service.http.app import create_app
from tests.service.http.edge.fakes import FakeStore, fake_services

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
MOST_LINES = 35


def shown() -> str:
    """Its text."""
    [code] = re.findall(r"## Your first handler\n.*?```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return str(code)


@pytest.mark.parametrize(
    ("who", "body", "status", "code"),
    [
        ("owner", {"name": "Ann"}, 201, None),
        (None, {"name": "Ann"}, 401, "unauthenticated"),
        ("owner", {"name": ""}, 400, "invalid_payload"),
        ("owner", {"name": "Ann", "age": 7}, 400, "invalid_payload"),
    ],
)
def test_it_runs_as_shown(
    monkeypatch: pytest.MonkeyPatch, who: str | None, body: Any, status: int, code: str | None
) -> None:
    """Nobody is greeted without a credential, or with another body."""
    module = ModuleType("first_handler")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(shown(), str(GUIDE), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - our own page
    edge = create_app(lambda: fake_services(FakeStore()), module.ENDPOINTS)
    headers = {} if who is None else {"authorization": f"Bearer {who}"}
    with TestClient(edge) as client:
        answer = client.post("/v1/greetings/en", json=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json().get("error", {}).get("code") == code
    assert code is not None or answer.json()["text"] == "Hello, Ann."


def test_it_is_short() -> None:
    """A reader sees it at once."""
    assert len(shown().splitlines()) <= MOST_LINES
